package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// scopePatience is how long systemd may take to make a scope.
const scopePatience = 10 * time.Second

// scopeCommand is what starts this program, with an argument, in a scope of the user's
// systemd, whose cgroup belongs to the user. nil where no cgroup can be made, where one
// can be made without, and where that systemd does not run.
//
// Source: systemd-run(1), --scope and Delegate=; its private socket needs no D-Bus.
func scopeCommand(f *files, getenv func(string) string, argument string) []string {
	above, err := ownGroup(f)
	if err != nil || os.Geteuid() == 0 || unix.Access(above, unix.W_OK) == nil {
		return nil
	}
	program, err := exec.LookPath("systemd-run")
	if err != nil {
		return nil
	}
	info, err := os.Stat(filepath.Join(getenv("XDG_RUNTIME_DIR"), "systemd/private"))
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil
	}
	return []string{program, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--description=commands launched by procinsh",
		"--", fmt.Sprintf("/proc/%d/exe", os.Getpid()), argument}
}

// inScope starts the keeper in a scope where that helps. false: there is none.
func (c *Client) inScope(ctx context.Context, o helperOptions) bool {
	argv := scopeCommand(newFiles("/proc"), os.Getenv, KeeperArgument)
	if argv == nil || o.NoCgroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, scopePatience)
	defer cancel()
	if err := c.startKeeper(ctx, argv[0], argv, o); err != nil {
		c.log("systemd gives no scope for runs, so that they have no cgroup", err)
		return false
	}
	return true
}
