//! Timing: defaults and validation.

use crate::rig::millis;
use simba_core::{Drift, Timing, TimingError};
use std::time::Duration;

#[test]
fn the_defaults() {
    let timing = Timing::default();
    assert_eq!(timing, Timing::builder().build().expect("the defaults are legal"));
    assert_eq!(timing.lease(), millis(15_000));
    assert_eq!(timing.renew(), millis(5_000));
    assert_eq!(timing.drift().parts_per_billion(), 10_000_000);
    assert_eq!(timing.margin(), millis(50));
    assert_eq!(timing.retry_jitter(), millis(2_500));
    assert_eq!(timing.min_backoff(), millis(100));
    let derived = Timing::builder().lease(millis(60_000)).build().expect("legal");
    assert_eq!((derived.renew(), derived.retry_jitter()), (millis(20_000), millis(10_000)));
    assert_eq!(timing.to_builder().build(), Ok(timing));
}

/// I48: accepted exactly if both rules hold, on a grid around their edges.
#[test]
fn accepted_exactly_if_the_rules_hold() {
    for lease in [1, 2, 3, 99, 100, 101, 200, 1_000, 15_000] {
        for renew in [1, 2, 33, 49, 50, 51, 100, 333, 500, 501] {
            for margin in [0, 1, 49, 50, 51, 500] {
                for drift in [0u64, 10, 100, 499] {
                    let text = format!("0.{drift:03}");
                    let built = Timing::builder()
                        .lease(millis(lease))
                        .renew(millis(renew))
                        .margin(millis(margin))
                        .drift(text.parse().expect("a drift"))
                        .build();
                    // In micro-seconds, so that per mille is exact.
                    let validity = (lease * (1_000 - drift)).saturating_sub(margin * 1_000);
                    let legal = renew * 2 <= lease && validity > renew * 1_000;
                    assert_eq!(built.is_ok(), legal, "{lease} {renew} {margin} {text}: {built:?}");
                }
            }
        }
    }
}

#[test]
fn values_out_of_range_are_refused_with_a_reason() {
    let zero = Duration::ZERO;
    let tiny = Duration::from_micros(999);
    let huge = Duration::MAX;
    for (builder, what) in [
        (Timing::builder().lease(zero), "lease time"),
        (Timing::builder().lease(tiny), "lease time"),
        (Timing::builder().lease(huge), "lease time"),
        (Timing::builder().renew(zero), "renew interval"),
        (Timing::builder().renew(huge), "renew interval"),
        (Timing::builder().margin(huge), "margin"),
        (Timing::builder().retry_jitter(huge), "retry jitter"),
        (Timing::builder().min_backoff(zero), "min backoff"),
        (Timing::builder().spread(huge), "spread"),
    ] {
        let error = builder.build().expect_err(what);
        assert!(matches!(&error, TimingError::OutOfRange { what: named, .. } if *named == what), "{error}");
        assert!(error.to_string().contains("365 days"), "{error}");
    }
    let eaten =
        Timing::builder().lease(millis(1_000)).margin(millis(700)).build().expect_err("too little is left");
    assert!(eaten.to_string().contains("must be longer than a renew interval"), "{eaten}");
}

#[test]
fn drift_is_a_fraction_below_one_half() {
    for (text, parts) in [
        ("0", 0),
        ("0.0", 0),
        ("00.01", 10_000_000),
        ("0.499999999", 499_999_999),
        ("0.1", 100_000_000),
        ("0.0000000001", 1),
    ] {
        assert_eq!(text.parse::<Drift>().map(Drift::parts_per_billion), Ok(parts), "{text}");
    }
    for text in
        ["0.5", "0.4999999999", "1", "-0.1", "NaN", "inf", "", ".", ".1.", "1e-3", "0,1", " 0.1", "0.1 "]
    {
        let error = text.parse::<Drift>().expect_err(text);
        assert!(error.to_string().contains("from 0 to below 0.5"), "{error}");
    }
    for ratio in [0.5, -0.01, f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300] {
        assert!(Drift::try_from(ratio).is_err(), "{ratio}");
    }
    for ratio in [0.0, 0.01, 0.1, 0.25, 1e-9, f64::MIN_POSITIVE] {
        assert!(Drift::try_from(ratio).is_ok(), "{ratio}");
    }
    assert_eq!(Drift::DEFAULT.to_string(), "0.01");
}
