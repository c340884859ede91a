use std::collections::BTreeMap;

#[inline(never)]
fn depth(n: u32, f: &dyn Fn(u32) -> usize) -> usize {
    if n > 0 { depth(n - 1, f) + 1 } else { f(n) }
}

fn main() {
    println!("READY");
    let mut total = 0usize;
    for i in 0u64.. {
        total = total.wrapping_add(depth(12, &|_| {
            let mut m = BTreeMap::new();
            for k in 0..50u64 { m.insert(format!("{}", (k * 7919 + i) % 1000), k); }
            let mut v: Vec<_> = m.keys().cloned().collect();
            v.sort_by(|a, b| b.len().cmp(&a.len()).then(b.cmp(a)));
            v.len()
        }));
        if total == 1 { println!("{}", total); }
    }
}
