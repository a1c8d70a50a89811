//! `simba config show`: every setting, its value, and where it comes from.

use std::process::ExitCode;

use crate::{
    exit::Exit,
    output::{self, Format},
    settings::Settings,
};

pub(crate) fn show(settings: &Settings, format: Format) -> Result<ExitCode, Exit> {
    match format {
        Format::Json => {
            output::json(&serde_json::json!({ "v": 1, "settings": settings.shown }));
        }
        Format::Text => {
            let width =
                |get: fn(&crate::settings::Shown) -> usize| settings.shown.iter().map(get).max().unwrap_or(0);
            let (keys, values) = (width(|s| s.key.len()), width(|s| s.value.chars().count()));
            for setting in &settings.shown {
                output::line(format!("{:keys$}  {:values$}  {}", setting.key, setting.value, setting.origin));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
