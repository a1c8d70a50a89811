//! What keeper and guard say to each other: nine bytes a message, a tag and a number.

use std::io::{self, Read, Write};

use rustix::process::Signal;

/// From the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The local deadline, in nanoseconds of the boot-time clock. Only ever later.
    Deadline(u64),
    /// Pass this signal to the command.
    Signal(i32),
    /// The wrapper was asked to end: the tree is killed at this instant, if it is still there.
    EndBy(u64),
    /// Kill the tree now.
    Kill,
}

/// From the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs, with this process id.
    Started(u32),
    /// The polite signal was sent, for lack of a renewal.
    Asked,
    /// The command has ended, and nothing of it is left.
    Ended(Ended),
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// By a signal that this program did not send for lack of a lease.
    Signal(u8),
    /// It was ended because the deadline was near.
    Lost,
    /// It was ended because it ran too long.
    TooLong,
    /// It could not be started at all.
    NotStarted,
}

fn frame(tag: u8, number: u64) -> [u8; 9] {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn read_frame(from: &mut impl Read) -> io::Result<(u8, u64)> {
    let mut bytes = [0; 9];
    from.read_exact(&mut bytes)?;
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[1..]);
    Ok((bytes[0], u64::from_le_bytes(number)))
}

fn unknown(tag: u8) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("message {tag} is not known"))
}

fn small(number: u64) -> io::Result<u8> {
    u8::try_from(number).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "number out of range"))
}

impl Order {
    pub(crate) fn write(self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&match self {
            Self::Deadline(at) => frame(b'D', at),
            Self::Signal(number) => frame(b'S', u64::from(number.unsigned_abs())),
            Self::EndBy(at) => frame(b'E', at),
            Self::Kill => frame(b'K', 0),
        })
    }

    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        match read_frame(from)? {
            (b'D', at) => Ok(Self::Deadline(at)),
            (b'S', number) => Ok(Self::Signal(i32::from(small(number)?))),
            (b'E', at) => Ok(Self::EndBy(at)),
            (b'K', _) => Ok(Self::Kill),
            (tag, _) => Err(unknown(tag)),
        }
    }
}

impl Report {
    pub(crate) fn write(self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&match self {
            Self::Started(pid) => frame(b'P', u64::from(pid)),
            Self::Asked => frame(b'A', 0),
            Self::Ended(Ended::Code(code)) => frame(b'C', u64::from(code)),
            Self::Ended(Ended::Signal(signal)) => frame(b'G', u64::from(signal)),
            Self::Ended(Ended::Lost) => frame(b'L', 0),
            Self::Ended(Ended::TooLong) => frame(b'T', 0),
            Self::Ended(Ended::NotStarted) => frame(b'N', 0),
        })
    }

    pub(crate) fn read(from: &mut impl Read) -> io::Result<Self> {
        match read_frame(from)? {
            (b'P', pid) => Ok(Self::Started(u32::try_from(pid).unwrap_or(0))),
            (b'A', _) => Ok(Self::Asked),
            (b'C', code) => Ok(Self::Ended(Ended::Code(small(code)?))),
            (b'G', signal) => Ok(Self::Ended(Ended::Signal(small(signal)?))),
            (b'L', _) => Ok(Self::Ended(Ended::Lost)),
            (b'T', _) => Ok(Self::Ended(Ended::TooLong)),
            (b'N', _) => Ok(Self::Ended(Ended::NotStarted)),
            (tag, _) => Err(unknown(tag)),
        }
    }
}

const NAMES: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("TSTP", Signal::TSTP),
    ("WINCH", Signal::WINCH),
];

/// A signal by its name, with or without SIG, in any case.
pub(crate) fn signal_from_name(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal).ok_or_else(|| {
        let known: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        let shown: String = text.chars().take(20).collect();
        format!("{shown:?} is not a signal that can be sent; use one of {}", known.join(", "))
    })
}

/// The signal with this number, among those that are passed on.
pub(crate) fn signal_from_number(number: i32) -> Option<Signal> {
    NAMES.iter().map(|(_, signal)| *signal).find(|signal| signal.as_raw() == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        for order in [Order::Deadline(u64::MAX), Order::Signal(15), Order::EndBy(7), Order::Kill] {
            let mut bytes = Vec::new();
            order.write(&mut bytes).unwrap();
            assert_eq!(Order::read(&mut bytes.as_slice()).unwrap(), order);
        }
        for report in
            [Report::Started(77), Report::Asked, Report::Ended(Ended::Code(255)), Report::Ended(Ended::Lost)]
        {
            let mut bytes = Vec::new();
            report.write(&mut bytes).unwrap();
            assert_eq!(Report::read(&mut bytes.as_slice()).unwrap(), report);
        }
        assert!(Order::read(&mut [b'?'; 9].as_slice()).is_err());
        assert!(Order::read(&mut [b'D'; 3].as_slice()).is_err());
    }

    #[test]
    fn signals_by_name() {
        assert_eq!(signal_from_name("SIGterm"), Ok(Signal::TERM));
        assert_eq!(signal_from_name("int"), Ok(Signal::INT));
        assert!(signal_from_name("SEGV").unwrap_err().contains("use one of HUP, INT"));
    }
}
