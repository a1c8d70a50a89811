//! Names: parsed once at the edge, valid for ever after.

use alloc::{string::String, sync::Arc};
use core::{borrow::Borrow, fmt, str::FromStr};

/// The longest lease name, in characters (all of them are one byte).
pub const MAX_NAME: usize = 128;

/// The name of a lease: 1 to 128 characters of `[A-Za-z0-9._:-]`, other than `.` and `..`.
///
/// The rule is the same on every store, so that a name means the same as a key, a path and a column. Two names
/// are the same lease exactly when their bytes are the same.
///
/// ```
/// use simba_backend::LeaseName;
///
/// let name: LeaseName = "billing.3".parse()?;
/// assert_eq!(name.as_str(), "billing.3");
/// assert!("a/b".parse::<LeaseName>().is_err());
/// assert!("..".parse::<LeaseName>().is_err());
/// # Ok::<(), simba_backend::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseName(Arc<str>);

impl LeaseName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`NameError`] says what was given and what is allowed.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Kind::Lease).map(|()| Self(text.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A prefix that keeps the leases of one environment apart from those of another in a shared store.
///
/// The same characters as a [`LeaseName`]. A store that is opened with a namespace writes `namespace/name`; since
/// `/` is in no name, two namespaces never meet.
///
/// ```
/// use simba_backend::Namespace;
///
/// assert_eq!(Namespace::new("staging")?.as_str(), "staging");
/// assert!(Namespace::new("a/b").is_err());
/// # Ok::<(), simba_backend::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// Parses a namespace.
    ///
    /// # Errors
    /// [`NameError`] says what was given and what is allowed.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Kind::Namespace).map(|()| Self(text.into()))
    }

    /// The namespace as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The label of a node, for people: who holds a lease. 1 to 128 characters of `[A-Za-z0-9._:@-]`.
///
/// It decides nothing. Two nodes may carry the same label.
///
/// ```
/// use simba_backend::NodeLabel;
///
/// assert_eq!(NodeLabel::new("web-2")?.as_str(), "web-2");
/// // A host name with characters that a label may not have becomes one that it may have.
/// assert_eq!(NodeLabel::sanitized("my host\n").as_str(), "my-host-");
/// # Ok::<(), simba_backend::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeLabel(Arc<str>);

impl NodeLabel {
    /// Parses a label.
    ///
    /// # Errors
    /// [`NameError`] says what was given and what is allowed.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, Kind::Node).map(|()| Self(text.into()))
    }

    /// A label made from text that this program did not choose, a host name say: each character that a label may
    /// not have becomes `-`, what is too long is cut, and nothing at all becomes `node`.
    #[must_use]
    pub fn sanitized(text: &str) -> Self {
        let label: String = text
            .chars()
            .take(MAX_NAME)
            .map(|c| if c.is_ascii() && Kind::Node.allows(c as u8) { c } else { '-' })
            .collect();
        Self(if label.is_empty() { "node".into() } else { label.into() })
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What was to be named, for the error and for the one difference in the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lease,
    Namespace,
    Node,
}

impl Kind {
    const fn allows(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b':' | b'-')
            || (byte == b'@' && matches!(self, Self::Node))
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Lease => "lease name",
            Self::Namespace => "namespace",
            Self::Node => "node label",
        }
    }
}

fn check(text: &str, kind: Kind) -> Result<(), NameError> {
    let fault = if text.is_empty() {
        Fault::Empty
    } else if text == "." || text == ".." {
        Fault::Dots
    } else if let Some((at, found)) =
        text.char_indices().find(|&(_, c)| !c.is_ascii() || !kind.allows(c as u8))
    {
        Fault::Character { at, found }
    } else if text.len() > MAX_NAME {
        Fault::TooLong
    } else {
        return Ok(());
    };
    let length = text.chars().count();
    Err(NameError { kind, given: text.chars().take(MAX_NAME).collect(), length, fault })
}

/// Why a text is not a name.
///
/// ```
/// let error = simba_backend::LeaseName::new("a/b").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "\"a/b\" cannot be a lease name: '/' at position 1 is not allowed; \
///      use 1 to 128 characters of A-Z a-z 0-9 . _ : - (and not \".\" or \"..\")"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    kind: Kind,
    given: String,
    length: usize,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Empty,
    Dots,
    TooLong,
    Character { at: usize, found: char },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.kind.words();
        write!(f, "{:?} cannot be a {what}: ", self.given)?;
        match self.fault {
            Fault::Empty => write!(f, "it is empty")?,
            Fault::Dots => write!(f, "it means a folder in a path")?,
            Fault::TooLong => write!(f, "it has {} characters", self.length)?,
            Fault::Character { at, found } => write!(f, "{found:?} at position {at} is not allowed")?,
        }
        let more = if self.kind == Kind::Node { " @" } else { "" };
        write!(f, "; use 1 to {MAX_NAME} characters of A-Z a-z 0-9 . _ : -{more} (and not \".\" or \"..\")")
    }
}

impl core::error::Error for NameError {}

macro_rules! text_type {
    ($($type:ident),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )*};
}
text_type!(LeaseName, Namespace, NodeLabel);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn i47_the_rule_at_its_edges() {
        for good in ["a", "a.b", "a:b", "-", "_", "...", "A", "9", &"x".repeat(128)] {
            assert!(LeaseName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "é", "a\0", "a\n", " a", "a ", "a@b", &"x".repeat(129)] {
            let error = LeaseName::new(bad).unwrap_err().to_string();
            assert!(error.contains("use 1 to 128 characters"), "{error}");
            assert!(
                !error.contains('\n') && !error.contains('\0'),
                "control characters are escaped: {error:?}"
            );
        }
    }

    #[test]
    fn names_differ_by_case() {
        assert_ne!(LeaseName::new("Report").unwrap(), LeaseName::new("report").unwrap());
    }

    #[test]
    fn a_label_is_always_made() {
        assert_eq!(NodeLabel::sanitized("").as_str(), "node");
        assert_eq!(NodeLabel::sanitized("ä'; drop").as_str(), "----drop");
        assert_eq!(NodeLabel::sanitized(&"x".repeat(300)).as_str().len(), MAX_NAME);
        assert!(NodeLabel::new("web-2@rack.1").is_ok());
    }
}
