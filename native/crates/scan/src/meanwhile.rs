//! What a broker does while a plan is made, for the tests of it: a test says what happens at the
//! places that call `at`.

use std::cell::RefCell;

type Event = Box<dyn FnMut()>;

thread_local! {
    static EVENTS: RefCell<Vec<(&'static str, Event)>> = const { RefCell::new(Vec::new()) };
}

/// From now on, in this thread.
pub fn when(place: &'static str, event: impl FnMut() + 'static) {
    EVENTS.with_borrow_mut(|events| events.push((place, Box::new(event))));
}

/// What happens there, happens.
pub fn at(place: &str) {
    EVENTS.with_borrow_mut(|events| {
        for (wanted, event) in events {
            if *wanted == place {
                event();
            }
        }
    });
}
