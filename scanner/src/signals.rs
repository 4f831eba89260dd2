// SPDX-License-Identifier: GPL-2.0-or-later
//! SIGINT and SIGTERM: the first signal ends a scan in order, the second at once.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Failure, Result, EXIT_INTERRUPTED};

/// Returns a flag that a signal sets from now on. Called once a scan can be stopped: before, a signal ends the program.
pub fn stop() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The shutdown is registered first, so that the first signal finds the flag unset.
        flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| Failure::system("sigaction", &error))?;
    }
    Ok(stop)
}
