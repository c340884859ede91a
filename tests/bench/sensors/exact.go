package main

import (
	"context"
	"fmt"
	"math"

	"procinsh/tests/bench/judge"
)

// path is a load in a machine that counts instructions, and how much longer the
// sensors may make it, in ns of guest time: two for each instruction.
type path struct {
	name, kind string
	count      int
	on         which
	most       float64
	peer       string // a tool of bcc on the same load in the same machine, measured once
	peerAdds   float64
	share      float64 // of what the peer adds
}

// The peers' figures are those of bcc 0.26 on Debian's 6.1 under -icount shift=1.
var paths = []path{
	{"1-byte read", "read", 5000, all, 900, "filetop -a", 4205, 1. / 4},
	{"pipe write and read", "pipe", 3000, all, 1800, "", 0, 0},
	{"two context switches", "yield", 20000, cpu, 780, "cpudist", 4723, 1. / 6},
	{"getppid", "getppid", 5000, all, 20, "", 0, 0}, // fexit costs nothing elsewhere
}

func instructions(ctx context.Context) error {
	fmt.Println("Guest time of one operation under -icount shift=1, in ns: instructions × 2.")
	fmt.Println()
	fmt.Println("| load | sensors | off | on | added | most | peer adds |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, p := range paths {
		// Every process has another place in the tables, and some meet there: what most have counts.
		run := func(w which) (v float64, err error) {
			var all []float64
			err = with(w, func() error {
				for range 3 {
					v, err := load(ctx, p.kind, p.count)
					if err != nil {
						return err
					}
					all = append(all, v)
				}
				return nil
			})
			return judge.Median(all), err
		}
		without, err := run(off)
		if err != nil {
			return err
		}
		on, err := run(p.on)
		if err != nil {
			return err
		}
		added, peer := on-without, "–"
		if added > p.most {
			judge.Missed("%s: %.0f ns added, more than %.0f", p.name, added, p.most)
		}
		if p.peer != "" {
			peer = fmt.Sprintf("%.0f (%s)", p.peerAdds, p.peer)
			if added > p.peerAdds*p.share {
				judge.Missed("%s: %.0f ns added, more than 1/%.0f of %s", p.name, added, math.Round(1/p.share), peer)
			}
		}
		fmt.Printf("| %s | %s | %.0f | %.0f | %.0f (%.2f ×) | %.0f | %s |\n", p.name, p.on, without, on, added, on/without, p.most, peer)
	}
	return nil
}
