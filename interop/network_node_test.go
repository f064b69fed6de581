//go:build linux

package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses of the network tests, in addition to those of the firmware's cable: a server's host
// at one end, where TFTP's own port is free, and a client at the other.
const (
	host6     = "fd69::1"
	guest6    = "fd69::2"
	linkHost  = "fe80::1" // link-local, the same on every cable
	linkGuest = "fe80::2"
	broadcast = "10.69.0.255"
	eth       = "eth0" // name of the cable on both ends
)

// waitMost is how long a test waits for something that must happen. Only a failing test waits
// this long.
const waitMost = time.Minute

// A node is a separate host: a network namespace. It has no name, so it leaves nothing behind: it
// exists as long as one thread of the test and the programs started from it.
type node struct {
	tid     int
	orders  chan func() // for the thread; closed at the end
	changed bool        // the thread differs permanently in more than its network; used by it alone
}

// newNode makes a node with only a loopback interface.
func newNode(t *testing.T) *node {
	t.Helper()
	needRoot(t, "a network namespace")
	haul(t) // built first, because nothing is reachable from a node
	n, err := nodeIn(t, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	if err != nil {
		absent(t, "no network namespace: %v", err)
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		absent(t, "the kernel has no IPv6: %v", err)
	}
	// Addresses are only set by the tests: those that the kernel makes would not be usable at
	// once.
	n.sysctl(t, "ipv6/conf/default/addr_gen_mode", "1")
	n.ip(t, "link set lo up")
	return n
}

// nodeIn makes a node in the namespace that enter enters.
func nodeIn(t *testing.T, enter func() error) (*node, error) {
	n := &node{orders: make(chan func())}
	ready := make(chan error)
	go n.live(enter, ready)
	t.Cleanup(func() { close(n.orders) })
	return n, <-ready
}

// live is the function of the thread in the namespace.
func (n *node) live(enter func() error, ready chan<- error) {
	goBack, err := lockThread()
	n.tid = unix.Gettid()
	if err == nil {
		err = enter()
	}
	ready <- err
	for f := range n.orders {
		f()
	}
	if n.changed {
		select {} // no other goroutine may use the thread, and it must not end: see lockThread
	}
	goBack()
}

// lockThread keeps the goroutine on its thread, which is going to enter another network. goBack
// returns the thread to the current network, so that any goroutine can use it.
//
// A thread must not end with its goroutine: the kernel would then kill the programs that the
// thread started earlier, for any other test (PR_SET_PDEATHSIG, see diesWithUs).
func lockThread() (goBack func(), err error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return func() {}, err
	}
	return func() {
		defer home.Close()
		// If this fails, no other goroutine may use the thread.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

// A program survives the end of a node whose thread has started it before.
func TestNodesLeaveTheirThreads(t *testing.T) {
	needRoot(t, "a network namespace")
	sleep := find(t, "coreutils", "sleep")
	var before, after string
	var d *daemon
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // so that everything happens on one thread
		d = sleep.start(t, "600")
		before, _ = os.Readlink("/proc/thread-self/ns/net")
		goBack, err := lockThread()
		if err == nil {
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		goBack()
		after, _ = os.Readlink("/proc/thread-self/ns/net")
		runtime.UnlockOSThread()
		ended <- err
	}()
	if err := <-ended; err != nil {
		absent(t, "no network namespace: %v", err)
	}
	if before == "" || after != before {
		t.Errorf("the thread was in the network %q, and is in %q", before, after)
	}
	select {
	case <-d.done:
		t.Errorf("the program has ended: %v", d.err)
	case <-time.After(200 * time.Millisecond): // an ending thread is gone by then
	}
}

// No other goroutine gets a thread that may not use an address family.
func TestNodesKeepTheirFilters(t *testing.T) {
	t.Run("node", func(t *testing.T) { newNode(t).withoutFamily(t, unix.AF_INET6) })
	var all sync.WaitGroup
	const threads = 100 // at once, so that existing threads are used, too
	reached := make(chan struct{}, threads)
	release := make(chan struct{})
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			reached <- struct{}{}
			<-release
			s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_ = unix.Close(s)
		})
	}
	for range threads {
		<-reached
	}
	close(release)
	all.Wait()
}

// do calls f on the node's thread: sockets that it opens and programs that it starts belong to
// the node. If f ends the test, so does do.
func (n *node) do(t *testing.T, f func()) {
	t.Helper()
	done := make(chan bool, 1)
	n.orders <- func() {
		returned := false
		defer func() { done <- returned }()
		f()
		returned = true
	}
	if !<-done {
		t.FailNow()
	}
}

// dialer returns a function that connects from the node.
func (n *node) dialer(t *testing.T) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		n.do(t, func() { c, err = new(net.Dialer).DialContext(ctx, network, address) })
		return c, err
	}
}

// ip configures the node. Each line is a command of ip(8).
func (n *node) ip(t *testing.T, lines ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	cmd := find(t, "iproute2", "ip").command(ctx, "-batch", "-")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, &out
	var err error
	n.do(t, func() { err = cmd.Start() })
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("ip -batch: %v\n%s\n%s", err, strings.Join(lines, "\n"), out.String())
	}
}

// sysctl sets a value of the node below /proc/sys/net.
func (n *node) sysctl(t *testing.T, name, value string) {
	t.Helper()
	var err error
	n.do(t, func() { err = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
	if err != nil {
		t.Fatal(err)
	}
}

// start starts a daemon on the node.
func (n *node) start(t *testing.T, p program, args ...string) (d *daemon) {
	t.Helper()
	n.do(t, func() { d = p.start(t, args...) })
	return d
}

// serve starts haul as a server on the node, and returns when it reports its address.
func (n *node) serve(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	d := n.start(t, haul(t), serveArgs(dir, args...)...)
	d.await(t, "tftp://")
	return d
}

func serveArgs(dir string, args ...string) []string {
	return append([]string{"serve", dir}, args...)
}

// await waits until the daemon has printed a text.
func (d *daemon) await(t *testing.T, text string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < waitMost; {
		if strings.Contains(d.said(1000), text) {
			return
		}
		select {
		case <-d.done:
			t.Fatalf("it ended: %v\n%s", d.err, d.said(10))
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("within %v it has not said %q:\n%s", waitMost, text, d.said(20))
}

// run runs a program on the node to its end.
func (n *node) run(t *testing.T, p program, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	cmd := p.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	n.do(t, func() { err = cmd.Start() })
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("still running after %v: %w", waitMost, err)
	}
	return out.String(), err
}

// fails runs haul on the node, and checks its exit code and message.
func (n *node) fails(t *testing.T, code int, why string, args ...string) {
	t.Helper()
	out, err := n.run(t, haul(t), args...)
	exit, ok := err.(interface{ ExitCode() int })
	if !ok || exit.ExitCode() != code || !strings.Contains(out, why) {
		t.Errorf("haul %s: %v, want exit code %d and %q:\n%s", strings.Join(args, " "), err, code, why, out)
	}
}

// fetches makes a client on the node fetch a file.
func (n *node) fetches(t *testing.T, c client, o options, server, name string, want []byte) {
	t.Helper()
	local := filepath.Join(t.TempDir(), "local")
	n.moves(t, c, c.get(o, endpoint(server), name, local))
	wantFile(t, local, want)
}

// sends makes a client on the node send size bytes, which are stored in dir.
func (n *node) sends(t *testing.T, c client, o options, server, dir, name string, size int) {
	t.Helper()
	local := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(local, content(size), 0o666); err != nil {
		t.Fatal(err)
	}
	n.moves(t, c, c.put(o, endpoint(server), name, local))
	wantFile(t, filepath.Join(dir, name), content(size))
}

func (n *node) moves(t *testing.T, c client, args []string) {
	t.Helper()
	out, err := n.run(t, c.find(t), args...)
	if err == nil && c.bad != "" && strings.Contains(out, c.bad) {
		err = fmt.Errorf("it reports a failure")
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", c.name, strings.Join(args, " "), err, out)
	}
}

// fragments returns how many fragments the node has made so far.
func (n *node) fragments(t *testing.T) int {
	t.Helper()
	// Do not read /proc/net: it shows the namespace of the process's first thread.
	var snmp, snmp6 []byte
	var err, err6 error
	n.do(t, func() {
		snmp, err = os.ReadFile("/proc/thread-self/net/snmp")
		snmp6, err6 = os.ReadFile("/proc/thread-self/net/snmp6")
	})
	if err != nil || err6 != nil {
		t.Fatal(err, err6)
	}
	return counter4(t, string(snmp), "FragCreates") + counter6(t, string(snmp6), "Ip6FragCreates")
}

// counter4 reads a counter of IPv4: a line of names, and a line of values.
func counter4(t *testing.T, text, name string) int {
	t.Helper()
	lines := strings.SplitN(text, "\n", 3)
	values := strings.Fields(lines[1])
	for i, word := range strings.Fields(lines[0]) {
		if word == name {
			return atoi(t, values[i])
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	panic("unreachable")
}

// counter6 reads a counter of IPv6: a name and a value in each line.
func counter6(t *testing.T, text, name string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == name {
			return atoi(t, words[1])
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	panic("unreachable")
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
