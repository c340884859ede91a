package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"procinsh/tests/bench/judge"
)

// The encoders and the fan-out are inside package api, so its own tests measure
// them, 5,000 rows and 32 viewers: ratios of CPU time, round by round.
var measured = []struct {
	test, title string
	most        float64
}{
	{"TestRowsCostLessThanMarshal", "encoding of 5,000 rows / json.Marshal", 0.5},
	{"TestFanOutCost/delta,_gzip", "32 list viewers / one, difference, gzip", 6},
	{"TestFanOutCost/whole,_gzip", "32 list viewers / one, whole list, gzip", 6},
	{"TestFanOutCost/delta,_plain", "32 list viewers / one, difference, plain", 6},
	{"TestFanOutCost/whole,_plain", "32 list viewers / one, whole list, plain", 6},
}

var (
	testName  = regexp.MustCompile(`^\s*--- (PASS|FAIL): (\S+)`)
	ratioLine = regexp.MustCompile(`ratios \[([0-9. ]+)\]`)
)

func encoding(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, judge.Bin+"/api.test", "-test.v", "-test.run", "^(TestRowsCostLessThanMarshal|TestFanOutCost)$")
	cmd.Env = append(os.Environ(), "PROCINSH_BENCH=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	found := map[string]float64{}
	current := ""
	for line := range strings.Lines(string(out)) {
		if m := testName.FindStringSubmatch(line); m != nil {
			current = m[2]
		}
		if m := regexp.MustCompile(`^=== RUN\s+(\S+)`).FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		if m := ratioLine.FindStringSubmatch(line); m != nil {
			var all []float64
			for _, w := range strings.Fields(m[1]) {
				v, err := strconv.ParseFloat(w, 64)
				if err != nil {
					return fmt.Errorf("%s: %w", current, err)
				}
				all = append(all, v)
			}
			found[current] = judge.Median(all)
		}
	}
	fmt.Printf("\nencoding and fan-out of the list, without the scan: ratios of CPU time, medians\n")
	for _, m := range measured {
		ratio, ok := found[m.test]
		if !ok {
			return fmt.Errorf("package api's tests gave no figure for %s (%v):\n%s", m.test, err, out)
		}
		fmt.Printf("  %-45s ratio %5.3f", m.title, ratio)
		rate(m.title, ratio, m.most)
	}
	return nil
}
