//! Rust: linkage names of the v0 and the legacy scheme, and inlining.
#![no_std]
#![no_main]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[inline(always)]
fn scale(x: u32) -> u32 {
    unsafe { core::ptr::write_volatile(&raw mut SINK, x) };
    x.wrapping_mul(3)
}

static mut SINK: u32 = 0;

struct Counter {
    n: u32,
}

impl Counter {
    #[inline(always)]
    fn step(&mut self) -> u32 {
        self.n = scale(self.n);
        self.n
    }
}

#[inline(never)]
fn turn(n: u32) -> u32 {
    let mut c = Counter { n };
    c.step() + c.step()
}

#[no_mangle]
pub extern "C" fn _start() -> ! {
    let mut n = 1;
    loop {
        n = turn(n);
    }
}
