//! What a flow entry tells a service: numbers and texts.
//!
//! Nearly always it is one number, which [`Action::Service`] has itself (SoftFlow's `sf_argument`); a list of more, or with a text, is
//! shared by the flow entry and all that is made of it. Bounds: [`Arguments::MOST`] of them, a text of [`Arguments::LONGEST`] bytes.

use crate::Action;
use crate::text::show_quoted;
use std::sync::Arc;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A number.
    Number(u32),
    /// A text.
    Text(Arc<str>),
}

impl std::fmt::Display for Argument {
    /// As flows have it: a text in quotes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => {
                let mut quoted = String::with_capacity(text.len() + 2);
                show_quoted(&mut quoted, text);
                f.write_str(&quoted)
            }
        }
    }
}

impl Argument {
    /// The number, if it is one.
    pub const fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

/// A list of arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arguments(Arc<[Argument]>);

impl Arguments {
    /// The most arguments of a list.
    pub const MOST: usize = 8;
    /// The longest text, in bytes.
    pub const LONGEST: usize = 64;

    /// A list.
    ///
    /// # Errors
    ///
    /// Which bound it exceeds, or that a text would not stand in a line.
    pub fn new(arguments: Vec<Argument>) -> Result<Self, String> {
        if arguments.len() > Self::MOST {
            return Err(format!("a service takes {} arguments at most", Self::MOST));
        }
        for argument in &arguments {
            if let Argument::Text(text) = argument
                && text.len() > Self::LONGEST
            {
                return Err(format!("a text for a service has {} bytes at most", Self::LONGEST));
            }
            if let Argument::Text(text) = argument
                && text.chars().any(char::is_control)
            {
                return Err("a text for a service has no control characters".to_owned());
            }
        }
        Ok(Self(arguments.into()))
    }

    /// The arguments, in order.
    pub fn list(&self) -> &[Argument] {
        &self.0
    }

    /// The first, as `sf_argument`: a number as it is, a text as 0.
    pub fn first(&self) -> u32 {
        self.0.first().and_then(Argument::number).unwrap_or(0)
    }

    /// The action that calls a service with these.
    pub fn call(self, service: u16) -> Action {
        match *self.0 {
            [] => Action::Service { service, argument: 0 },
            [Argument::Number(argument)] => Action::Service { service, argument },
            _ => Action::ServiceWith { service, arguments: self },
        }
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        let text = |argument: &Argument| match argument {
            Argument::Text(text) => text.len(),
            Argument::Number(_) => 0,
        };
        size_of_val(&*self.0) + self.0.iter().map(text).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_is_the_plain_action_and_bounds_are_kept() {
        let of = |arguments: &[Argument]| Arguments::new(arguments.to_vec()).unwrap();
        let text = |text: &str| Argument::Text(text.into());
        assert_eq!(of(&[]).call(2), Action::Service { service: 2, argument: 0 });
        assert_eq!(of(&[Argument::Number(7)]).call(2), Action::Service { service: 2, argument: 7 });
        let (two, named) = (of(&[Argument::Number(7), Argument::Number(8)]), of(&[text("web")]));
        assert_eq!((two.first(), named.first()), (7, 0));
        assert_eq!(named.clone().call(1), Action::ServiceWith { service: 1, arguments: named });
        let many = vec![Argument::Number(0); Arguments::MOST + 1];
        assert!(Arguments::new(many).unwrap_err().contains("8 arguments"));
        assert!(Arguments::new(vec![text(&"x".repeat(Arguments::LONGEST))]).is_ok());
        assert!(
            Arguments::new(vec![text(&"x".repeat(Arguments::LONGEST + 1))]).unwrap_err().contains("64 bytes")
        );
        assert!(Arguments::new(vec![text("a\nb")]).unwrap_err().contains("control characters"));
    }
}
