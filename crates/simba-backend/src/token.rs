//! The fencing token.

use core::{fmt, num::NonZeroU64, str::FromStr};

/// A fencing token: greater than zero, constant within a term, strictly rising over the terms of a name.
///
/// Hand it to the protected resource with every write; the resource refuses a write whose token is below the
/// highest it has accepted. Its text form is decimal, and in JSON and scripts it must stay text: a number above
/// 2^53 is rounded there.
///
/// The largest token is `i64::MAX`, so that every store can keep it in a signed column.
///
/// ```
/// use simba_backend::FencingToken;
///
/// let token = FencingToken::new(7).unwrap();
/// assert!(token < FencingToken::new(8).unwrap());
/// assert_eq!("7".parse(), Ok(token));
/// assert_eq!(FencingToken::new(0), None);
/// assert_eq!(FencingToken::new(u64::MAX), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The first token of a name on a store that counts.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// A token from a number, if it lies in `1..=i64::MAX`.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) if value.get() <= i64::MAX.unsigned_abs() => Some(Self(value)),
            _ => None,
        }
    }

    /// A token from a signed number, as a store's column gives it.
    #[must_use]
    pub const fn from_i64(value: i64) -> Option<Self> {
        if value > 0 { Self::new(value.unsigned_abs()) } else { None }
    }

    /// The token as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The token as a signed number, for a store's column.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }

    /// The next token, or `None` past the largest one.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0.get() + 1)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenError;

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fencing token is a decimal number from 1 to {}, digits only", i64::MAX)
    }
}

impl core::error::Error for TokenError {}

impl FromStr for FencingToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        // `u64::from_str` takes a leading plus sign, which no writer of ours prints.
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(TokenError);
        }
        text.parse().ok().and_then(Self::new).ok_or(TokenError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn i3_text_and_numbers_meet_at_the_edges() {
        for value in [1, 2, (1 << 53) + 1, i64::MAX.unsigned_abs()] {
            let token = FencingToken::new(value).unwrap();
            assert_eq!(token.to_string().parse(), Ok(token));
            assert_eq!(FencingToken::from_i64(token.as_i64()), Some(token));
        }
        for bad in ["", "0", "-1", "+1", "1.0", "9223372036854775808", "1e3", " 1"] {
            assert_eq!(bad.parse::<FencingToken>(), Err(TokenError), "{bad:?}");
        }
        assert_eq!(FencingToken::new(i64::MAX.unsigned_abs()).unwrap().next(), None);
        assert_eq!(FencingToken::from_i64(-5), None);
    }
}
