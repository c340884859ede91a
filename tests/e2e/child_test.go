package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child is what a copy of this test does when it is started for another's sake.
func child(mode string) int {
	switch mode {
	case "get": // GET each argument on one kept connection per host, print the statuses
		for _, url := range os.Args[1:] {
			res, err := http.Get(url)
			if err != nil {
				fmt.Println("error:", err)
				continue
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			fmt.Println(res.StatusCode)
		}
	case "bearer": // the same with a token, the first argument
		for _, url := range os.Args[2:] {
			r, err := http.NewRequest("GET", url, nil)
			if err != nil {
				fmt.Println("error:", err)
				continue
			}
			r.Header.Set("Authorization", "Bearer "+os.Args[1])
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				fmt.Println("error:", err)
				continue
			}
			res.Body.Close()
			fmt.Println(res.StatusCode)
		}
	case "body": // GET the argument, print the answer
		res, err := http.Get(os.Args[1])
		if err != nil {
			fmt.Println("error:", err)
			return 0
		}
		defer res.Body.Close()
		io.Copy(os.Stdout, res.Body)
	case "unix": // the same as get through a socket file
		c, err := net.Dial("unix", os.Args[1])
		if err != nil {
			fmt.Println("error:", err)
			return 0
		}
		fmt.Fprint(c, "GET /api/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			fmt.Println("error:", err)
			return 0
		}
		fmt.Println(res.StatusCode)
	case "post": // send and close at once, again and again
		for range 100 {
			c, err := net.Dial("tcp", os.Args[1])
			if err != nil {
				fmt.Println("error:", err)
				return 0
			}
			fmt.Fprintf(c, "POST /api/config HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", os.Args[1])
			c.Close()
		}
	case "connect": // connect and reset, as often as the second argument says
		n, _ := strconv.Atoi(os.Args[2])
		for range n {
			c, err := net.Dial("tcp", os.Args[1])
			if err != nil {
				fmt.Println("error:", err)
				return 0
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		fmt.Println("done")
	case "threads": // threads that come and go
		var wg sync.WaitGroup
		for {
			for range 8 {
				wg.Go(func() {
					runtime.LockOSThread() // the thread ends with its goroutine
					time.Sleep(time.Millisecond)
				})
			}
			wg.Wait()
		}
	case "fork": // children that come and go
		for {
			if err := exec.Command("/bin/true").Run(); err != nil {
				fmt.Println("error:", err)
				return 1
			}
		}
	case "exec": // one process that becomes itself for ever
		time.Sleep(2 * time.Millisecond)
		if err := syscall.Exec("/proc/self/exe", os.Args, os.Environ()); err != nil {
			fmt.Println("error:", err)
			return 1
		}
	case "rename": // a name that changes all the time
		for i := 0; ; i++ {
			if err := os.WriteFile("/proc/self/comm", fmt.Appendf(nil, "name) R %d", i), 0); err != nil {
				fmt.Println("error:", err)
				return 1
			}
			time.Sleep(time.Millisecond)
		}
	case "wait": // threads that wait for ever
		for range 3 {
			go func() {
				runtime.LockOSThread()
				<-make(chan int)
			}()
		}
		for {
			unix.Pause()
		}
	case "seize": // trace the argument until killed
		pid, err := strconv.Atoi(os.Args[1])
		if err != nil {
			fmt.Println("error:", err)
			return 1
		}
		runtime.LockOSThread()
		if err := unix.PtraceSeize(pid); err != nil {
			fmt.Println("error:", err)
			return 1
		}
		for {
			unix.Pause() // a blocked goroutine alone would be a deadlock to the runtime
		}
	default:
		fmt.Println("unknown mode", mode)
		return 1
	}
	return 0
}

// childCommand runs this test as another program, as user uid when it is not 0.
func childCommand(mode string, uid uint32, args ...string) *exec.Cmd {
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "E2E_MODE="+mode)
	cmd.Dir = "/"
	// No Pdeathsig: that is of the thread that forks, and test threads end.
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	return cmd
}

// as runs a child to its end and returns what it printed, line by line.
func as(t *testing.T, uid uint32, mode string, args ...string) []string {
	t.Helper()
	out, err := childCommand(mode, uid, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s as %d: %v\n%s", mode, uid, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
