//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	allWork    = 20 * time.Second // unless HAUL_SOAK is set
	allClients = 6                // for each protocol
	allPause   = 200 * time.Millisecond
	allDisk    = 64 << 20 // bytes of the served disk

	// Even in a short soak, each of these happens several times.
	reloadEvery = time.Minute
	fullEvery   = 45 * time.Second // the disk is full
	fullFor     = 3 * time.Second
	cutEvery    = 5 * time.Second // connections are cut
)

// All protocols are used at the same time, with the status page open, and with many faults:
// reloads, a full disk, cut connections, lost datagrams, and clients that vanish. Nothing that
// was confirmed is lost, and the server does not grow. Each reload begins a new process, so a
// second server runs without reloads.
//
//	HAUL_SOAK=1h go test -timeout 70m -run TestSoakAll ./interop
//
// HAUL_SOAK_TABLE names a directory for the samples. Without HAUL_SOAK the test is skipped: other
// tests cover each of these faults alone, and a short soak shows little.
func TestSoakAll(t *testing.T) {
	if os.Getenv("HAUL_SOAK") == "" {
		t.Skip(`"make soak" runs it`)
	}
	needRoot(t, "a disk of its own")
	haul(t)
	for _, c := range []struct {
		name    string
		reloads bool
	}{{"reloads", true}, {"steady", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newSoakAll(t)
			a.work(t, c.reloads)
			a.end(t, c.name)
		})
	}
}

// A soakAll is a server for all protocols, with what its clients know about it.
type soakAll struct {
	*soak
	server program
	group  int          // process group
	pid    atomic.Int64 // PID of the process that serves
	web    string       // URL
	page   string       // URL
	login  login
	// ssh configurations whose "server" is reached through the wire or directly.
	spoiled, direct string
	wire            *wire // to SFTP
	webWire         *wire // to HTTP

	others  []*treeClient // that use HTTP or SFTP
	began   time.Time
	rest    level // before all work
	samples []level
}

func newSoakAll(t *testing.T) *soakAll {
	k := &soak{length: allWork, seed: rand.Uint64(), done: map[string]int{}}
	if s := os.Getenv("HAUL_SOAK"); s != "" {
		var err error
		if k.length, err = time.ParseDuration(s); err != nil || k.length < allWork {
			t.Fatalf("HAUL_SOAK=%s: it is a duration of %v at least, such as 1h", s, allWork)
		}
	}
	base := t.TempDir()
	k.dir, k.staging = filepath.Join(base, "served"), filepath.Join(base, "served", "staging")
	if err := os.Mkdir(k.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("soak", k.dir, "tmpfs", 0, fmt.Sprintf("size=%d", allDisk)); err != nil {
		absent(t, "no disk of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(k.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for i, size := range soakSizes {
		write(t, filepath.Join(k.dir, soakFile(i)), described(uint64(i), size))
	}
	a := &soakAll{soak: k, server: haul(t)}
	a.serve(t, base)
	a.began = time.Now()
	a.rest = must[level](t)(a.level(t.Context()))
	k.vanishUntil = a.began.Add(max(k.length/4, k.length-soakSilence))
	for i := range allClients {
		k.clients = append(k.clients, &soaker{soak: k, id: i, random: rand.New(rand.NewPCG(k.seed, uint64(i)))})
	}
	for i := range allClients {
		for _, make := range []func(*soakAll, *treeClient) *treeClient{newWebClient, newSFTPClient} {
			a.others = append(a.others, make(a, &treeClient{soakAll: a, id: i, scratch: t.TempDir(),
				random: rand.New(rand.NewPCG(k.seed, uint64(1000+len(a.others))))}))
		}
	}
	return a
}

const soakSettings = `dirs = [%q]
restartable = true
[tftp]
listen = "127.0.0.1:0"
[http]
listen = "127.0.0.1:0"
[sftp]
listen = "127.0.0.1:0"
users = %q
host_keys = %q
exempt = ["127.0.0.0/8"]
[metrics]
listen = "127.0.0.1:0"
[status]
listen = "127.0.0.1:0"
pprof = true
[files]
upload = "overwrite"
[log]
quiet = true
audit = %q
[[hook]]
on = ["uploaded", "failed", "login_failed"]
run = [%q]
`

var servingTFTP = regexp.MustCompile(`serving \S+ on tftp://(127\.0\.0\.1:[0-9]+)`)

// serve starts the server in its own process group, which its successors share. The group's shell
// ends them all when this process ends.
func (a *soakAll) serve(t *testing.T, base string) {
	t.Helper()
	settings := write(t, filepath.Join(base, "haul.toml"), fmt.Appendf(nil, soakSettings, a.dir, usersFile(t), t.TempDir(),
		filepath.Join(base, "audit"), must[string](t)(exec.LookPath("true"))))
	log, err := os.Create(filepath.Join(base, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d := &daemon{log: log.Name(), done: make(chan struct{})}
	d.cmd = exec.Command("sh", "-c", `"$@" & echo "pid $!"; cat; kill -9 0`, "sh", a.server.path, "serve", "--config", settings)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The server refuses variables whose names look like settings.
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HAUL_SOAK") })
	d.cmd.Stdout, d.cmd.Stderr = log, log
	hold, err := d.cmd.StdinPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("haul said:\n%s", d.said(100))
		}
		hold.Close()
		<-d.done
	})
	a.group = d.cmd.Process.Pid
	a.setPid(t, d.ready(t, regexp.MustCompile(`pid ([0-9]+)`))[1])
	addr := d.ready(t, servingTFTP)[1]
	a.web, a.page = d.ready(t, urlSaid)[1], d.ready(t, statusSaid)[1]
	a.login = login{addr: d.ready(t, servingSFTP)[1], user: "haul", key: must[keyPair](t)(userKey()).file, dir: a.dir, home: "/"}
	a.login.host = hostKeyOf(t, a.login.addr)
	a.direct = a.login.sshConfig(t)
	a.wire = newWire(t, a.login.addr, time.Millisecond)
	a.webWire = newWire(t, strings.TrimPrefix(a.web, "http://"), time.Millisecond)
	a.spoiled = a.wire.through(a.login).sshConfig(t)
	a.m = &metered{daemon: d, addr: netip.MustParseAddrPort(addr), metrics: metricsAt.FindString(d.said(100))}
	a.m.client.Timeout = scalePatience
	a.m.client.Transport = aloneTransport()
}

func (a *soakAll) setPid(t *testing.T, text string) {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	a.pid.Store(int64(n))
}

// often returns an interval that occurs at least ten times in the soak.
func (a *soakAll) often(interval time.Duration) time.Duration { return min(interval, a.length/10) }

// work keeps all clients busy until the end of the soak.
func (a *soakAll) work(t *testing.T, reloads bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), a.length)
	defer cancel()
	var all sync.WaitGroup
	loop := func(pause time.Duration, f func(n uint64) error) {
		all.Go(func() {
			a.every(ctx, pause, func(n uint64) error {
				if a.failed.any() {
					cancel()
				}
				return f(n)
			})
		})
	}
	for _, c := range a.clients {
		loop(allPause, func(uint64) error { c.act(); return nil })
	}
	for _, c := range a.others {
		loop(allPause, func(uint64) error { c.act(ctx); return nil })
	}
	all.Go(func() { a.watch(ctx) })
	loop(time.Second, func(uint64) error { _, err := a.scrape(t.Context()); return err })
	loop(a.often(reloadEvery)/2, a.top)
	loop(a.often(cutEvery), func(uint64) error { a.wire.cut(); a.webWire.cut(); return nil })
	loop(a.often(fullEvery), a.fill)
	loop(a.length/10, a.replaceAll)
	if reloads {
		loop(a.often(reloadEvery), a.reload)
	}
	loop(min(10*time.Second, a.length/40), func(uint64) error { return a.sample(t.Context()) })
	all.Wait()
	if a.failed.report(t) {
		t.FailNow()
	}
}

// replaceAll is like replace, while the disk is not full.
func (a *soakAll) replaceAll(n uint64) error {
	fulls := a.fulls.Load()
	err := os.MkdirAll(a.staging, 0o777)
	if err == nil {
		err = a.replace(n)
	}
	if err != nil && a.excuse(fulls) {
		return nil
	}
	return err
}

// fill fills the disk for a while.
func (a *soakAll) fill(n uint64) error {
	if n == 0 {
		return nil
	}
	a.fulls.Add(1)
	defer a.fulls.Add(1)
	name := filepath.Join(a.dir, "balloon")
	f, err := os.Create(name)
	if err != nil && !isFull(err) {
		return err
	}
	for end := time.Now().Add(min(fullFor, a.length/20)); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for err == nil {
			_, err = f.Write(make([]byte, 256<<10))
		}
		if !isFull(err) {
			return err
		}
		err = nil // failing uploads free space
	}
	a.did("full disk")
	// A child that has just been forked may keep the file open for a moment, so Remove alone may
	// not free the space.
	return errors.Join(f.Truncate(0), f.Close(), os.Remove(name))
}

// reload makes the server read its settings again.
func (a *soakAll) reload(n uint64) error {
	if n == 0 {
		return nil
	}
	old := a.pid.Load()
	if err := syscall.Kill(int(old), syscall.SIGHUP); err != nil {
		return err
	}
	for end := time.Now().Add(startPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pid := int64(a.serving()); pid > 1 && pid != old && pid != int64(a.group) {
			a.pid.Store(pid)
			a.did("reload")
			return nil
		}
	}
	return fmt.Errorf("no successor within %v", startPatience)
}

// end stops the server, and checks for lost data and leftovers.
func (a *soakAll) end(t *testing.T, name string) {
	t.Helper()
	for _, c := range a.others {
		c.settle(t)
	}
	a.m.await(t, "the end of all transfers", func(s sample) bool { return s["haul_transfers_live"] == 0 })
	a.m.healthy(t)
	s := a.m.await(t, "hooks have run", func(s sample) bool { return s["haul_hook_runs_total"] > 0 })
	if n := s["haul_hook_runs_lost_total"]; n != 0 {
		t.Errorf("%v runs of hooks are lost", n)
	}
	a.await(t, "only the server and its helpers, and no zombie", func() bool { return len(a.processes()) <= soakProcesses })
	var now level
	a.await(t, fmt.Sprintf("no more descriptors and goroutines than before all work, %d and %d", a.rest.descriptors, a.rest.goroutines), func() bool {
		now = must[level](t)(a.level(t.Context()))
		return now.descriptors <= a.rest.descriptors+spareDescriptors && now.goroutines <= a.rest.goroutines+soakGoroutines
	})
	t.Logf("at rest, before and after: %d and %d descriptors, %d and %d goroutines", a.rest.descriptors, now.descriptors, a.rest.goroutines, now.goroutines)
	if err := os.RemoveAll(a.staging); err != nil {
		t.Error(err)
	}
	a.wantDisk(t)
	for _, c := range a.others {
		c.wantStored(t)
	}
	var words []string
	for what, n := range a.done {
		words = append(words, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(words)
	t.Logf("done: %s", strings.Join(words, ", "))
	a.flat(t, name)

	if err := syscall.Kill(int(a.pid.Load()), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	a.await(t, "no process is left", func() bool { return len(a.processes()) == 0 })
}

func (a *soakAll) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(scalePatience); !reached(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			for _, p := range a.processes() {
				t.Logf("%+v", p)
				_ = syscall.Kill(p.pid, syscall.SIGQUIT) // it prints where it is
			}
			time.Sleep(time.Second)
			t.Fatalf("not within %v: %s", scalePatience, what)
		}
	}
}
