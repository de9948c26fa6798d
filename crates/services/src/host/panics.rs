//! Catching a panic quietly: what it said is kept, and nothing is printed where it happened.
//!
//! A panic hook, put in place once for the process, keeps quiet about panics inside [`contained`] and
//! hands all others to the hook that was there before. Cost where nothing panics: two stores to a
//! thread-local.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// The most characters of a panic's message that are kept.
const LONGEST: usize = 500;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Puts the hook in place.
pub(super) fn keep_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CONTAINED.try_with(Cell::get).unwrap_or(false) {
                let said = describe(info);
                let _ = SAID.try_with(|cell| cell.try_borrow_mut().map(|mut cell| *cell = Some(said)));
            } else {
                before(info);
            }
        }));
    });
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let text = message(info.payload());
    match info.location() {
        Some(place) => format!("{text}, at {place}"),
        None => text,
    }
}

/// What a panic said, on one line.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Runs `body`; its panic is what it said.
#[inline]
pub(super) fn contained<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    let outer = CONTAINED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    CONTAINED.set(outer);
    result.map_err(said)
}

#[cold]
fn said(payload: Box<dyn Any + Send>) -> String {
    let kept = SAID.take();
    let text = kept.unwrap_or_else(|| message(payload.as_ref()));
    // What was thrown may itself panic when it is dropped; what that throws is left to itself.
    let outer = CONTAINED.replace(true);
    if let Err(again) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
        SAID.take();
    }
    CONTAINED.set(outer);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_said_is_kept_on_one_line_with_its_place() {
        keep_quiet();
        let text = contained(|| panic!("first\nsecond {}", 7)).unwrap_err();
        assert!(text.starts_with("first second 7, at ") && text.contains("panics.rs:"), "{text}");
        assert_eq!(contained(|| 7), Ok(7));
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaks on purpose")]
    fn a_payload_that_panics_when_dropped_is_contained_too() {
        struct Evil;
        impl Drop for Evil {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        keep_quiet();
        let text = contained(|| panic::panic_any(Evil)).unwrap_err();
        assert!(text.starts_with("no message"), "{text}");
    }
}
