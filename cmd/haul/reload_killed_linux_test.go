package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/race"
)

// dieVar names a file that holds the step at which a successor dies as by kill -9; "" means it does
// not die.
const dieVar = "HAUL_TEST_DIE_AT"

// settledText is what a process prints after SIGUSR1, once it has freed all memory that it can.
const settledText = "memory is free"

func init() {
	if os.Getenv(dieVar) == "" || os.Getenv(asHaul) == "" {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
			debug.FreeOSMemory() // pools keep their contents for one collection
			fmt.Fprintln(os.Stderr, settledText)
		}
	}()
	text, err := os.ReadFile(os.Getenv(dieVar))
	if err != nil || os.Getenv("HAUL_HANDED") == "" {
		return
	}
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	switch string(text) {
	case "spawned":
		die()
	case "opened":
		run := runServer
		runServer = func(ctx context.Context, cfg settings.Config, out io.Writer) error {
			return run(ctx, cfg, writerFunc(func(p []byte) (int, error) {
				die() // a server prints its first line when its sockets are open
				return len(p), nil
			}))
		}
	case "ready":
		_, _ = os.NewFile(3, "line").WriteString("ready\n")
		die()
	case "go":
		line := os.NewFile(3, "line")
		_, _ = line.WriteString("ready\n")
		_, _ = bufio.NewReader(line).ReadString('\n')
		die()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// processes returns the processes whose environment has a variable.
func processes(t *testing.T, variable string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(variable+"\x00")) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// openFDs counts the descriptors of a process.
func openFDs(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// anonymous returns the anonymous memory of a process, in KiB.
func anonymous(t *testing.T, pid int) (kib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

func times(n int, text string) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

// A reloader makes a server reload and restart repeatedly.
type reloader struct {
	*sftpChild
	config *ssh.ClientConfig
	dir    string // the served directory
	step   string // file with the step at which a successor dies
	unique string // a variable that all processes of the server have
	pid    int    // process ID of the server

	failed, succeeded, settled int
}

// request starts a successor with SIGHUP or SIGUSR2. The successor dies at a step, or serves if
// step is "".
func (r *reloader) request(by syscall.Signal, step string) {
	r.t.Helper()
	writeFile(r.t, r.step, step)
	if err := syscall.Kill(r.pid, by); err != nil {
		r.t.Fatal(err)
	}
	if step != "" {
		r.failed++
		r.await(times(r.failed, "reload: there is no successor")...)
		return
	}
	r.succeeded++
	r.pid = r.sftpChild.succeeded(r.succeeded)
}

// A level holds the resources of the processes of a server without clients.
type level struct {
	fds             int
	server, spawner int // memory, in KiB
}

// level returns the level of the server and its spawner, which must be the only processes left. It
// waits until the clients' connections are gone, down to a number of descriptors.
func (r *reloader) level(fds int) (now level) {
	r.t.Helper()
	var all []int
	eventually(r.t, "a server and its spawner are left", func() bool {
		all = processes(r.t, r.unique)
		return len(all) == 2 && slices.Contains(all, r.pid)
	})
	eventually(r.t, fmt.Sprintf("the server has %d descriptors", fds), func() bool {
		now.fds = openFDs(r.t, r.pid)
		return now.fds <= fds
	})
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			r.t.Fatal(err)
		}
		r.settled++
		r.await(times(r.settled, settledText)...)
		if pid == r.pid {
			now.server = anonymous(r.t, pid)
		} else {
			now.spawner = anonymous(r.t, pid)
		}
	}
	return now
}

// hold begins transfers over each protocol, in both directions. The returned function completes
// them, and checks the contents.
func (r *reloader) hold() (end func()) {
	r.t.Helper()
	t := r.t
	web := &httpChild{child: r.child}
	web.awaitHTTP("http")
	image, err := os.ReadFile(filepath.Join(r.dir, crowdFile))
	if err != nil {
		t.Fatal(err)
	}
	half := len(image) / 2

	read := r.halfway("kernel")
	write := r.dial()
	write.send("\x00\x02held-tftp\x00octet\x00")
	write.want(ack(0))
	write.send("\x00\x03\x00\x01" + string(image[:512]))
	write.want(ack(1))

	session := r.files(r.config)
	from, err := session.Open(t.Context(), crowdFile)
	session.want("open", err)
	got := make([]byte, len(image))
	_, err = io.ReadFull(from, got[:half])
	session.want("read", err)
	to, err := session.Create(t.Context(), "held-sftp")
	session.want("create", err)
	_, err = to.Write(image[:half])
	session.want("write", err)

	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	resp, err := client.Get(web.at + "/" + crowdFile)
	if err != nil {
		t.Fatal(err)
	}
	fetched := make([]byte, len(image))
	if _, err := io.ReadFull(resp.Body, fetched[:half]); err != nil {
		t.Fatal(err)
	}
	body, rest := io.Pipe()
	put := make(chan error, 1)
	go func() { put <- putOnce(client, web.at+"/held-http", body, int64(len(image))) }()
	if _, err := rest.Write(image[:half]); err != nil {
		t.Fatal(err)
	}

	return func() {
		t.Helper()
		read.end()
		write.send("\x00\x03\x00\x02" + string(image[512:600]))
		write.want(ack(2))
		_, err := io.ReadFull(from, got[half:])
		session.want("read the rest", err)
		_, err = to.Write(image[half:])
		session.want("write the rest", err)
		session.want("close", to.Close())
		session.Close()
		_, err = io.ReadFull(resp.Body, fetched[half:])
		session.want("HTTP get", errors.Join(err, resp.Body.Close()))
		_, err = rest.Write(image[half:])
		session.want("HTTP put", errors.Join(err, rest.Close(), <-put))
		client.CloseIdleConnections()
		if !bytes.Equal(got, image) || !bytes.Equal(fetched, image) {
			t.Error("a download has another content")
		}
		for name, want := range map[string][]byte{"held-tftp": image[:600], "held-sftp": image, "held-http": image} {
			if has, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || !bytes.Equal(has, want) {
				t.Errorf("%s: %d bytes, %v; want %d, or another content", name, len(has), err, len(want))
			}
		}
	}
}

const (
	// moreKiB bounds the growth of a process's anonymous memory over all rounds, measured after it
	// has freed what it can.
	moreKiB = 4 << 10

	// quietReloads is the number of reloads that fail while nobody is connected. A process that
	// leaked 32 KiB in each would grow by moreKiB.
	quietReloads = moreKiB / 32
)

// A server under load from three protocols, with transfers of each in progress, reloads and
// restarts repeatedly. Most successors die on the way. All files are correct, and descriptors,
// processes and memory return to their level.
func TestReloadKilled(t *testing.T) {
	t.Parallel() // at its end it waits for servers that repeat their last ACK
	rounds, quiet := 100, quietReloads
	if testing.Short() || race.Enabled { // each step once for each signal
		rounds, quiet = 10, quietReloads/8
	}
	o, _ := newReloads(t)
	file := filepath.Join(t.TempDir(), "step")
	writeFile(t, file, "")
	unique := dieVar + "=" + file
	o.env = append(o.env, unique)
	t.Cleanup(func() {
		for _, pid := range processes(t, unique) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	dir := bigDir(t)
	s, config := startAll(t, o, dir)
	r := &reloader{sftpChild: s, config: config, dir: dir, step: file, unique: unique, pid: s.cmd.Process.Pid}

	// The first server opened its sockets itself, so the level is measured on its successor.
	r.request(syscall.SIGHUP, "")
	load := newCrowd(s, config, dir, true)
	load.more(t)
	load.end()
	before := r.level(1 << 20)

	load = newCrowd(s, config, dir, true)
	defer func() { load.end() }()
	for round := 0; round < rounds && !t.Failed(); {
		end := r.hold()
		for _, step := range []string{"spawned", "opened", "ready", "go", ""} {
			r.request([]syscall.Signal{syscall.SIGHUP, syscall.SIGUSR2}[round%2], step)
			round++
		}
		end()
	}
	load.more(t)
	load.end()
	for i := range quiet {
		r.request(syscall.SIGHUP, []string{"spawned", "opened", "ready", "go"}[i%4])
	}
	after := r.level(before.fds)
	t.Logf("before %+v, after %+v", before, after)
	more := moreKiB
	if race.Enabled { // the detector needs additional memory for each byte that is used
		more *= 4
	}
	if after.server > before.server+more || after.spawner > before.spawner+more {
		t.Errorf("descriptors and memory in KiB: %+v, and before the reloads %+v", after, before)
	}
	wantNames(t, dir, "by-http", "by-sftp", "by-tftp", "held-http", "held-sftp", "held-tftp", crowdFile, "kernel")

	// A successor that dies while it serves is like any other server that dies. Clients of the
	// server before it still get their files.
	old, transfer, session := r.pid, s.halfway("kernel"), s.files(config)
	r.request(syscall.SIGHUP, "")
	if err := syscall.Kill(r.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	transfer.end()
	session.wantRead("kernel", strings.Repeat("x", 3*512+1))
	session.Close()
	s.awaitEnd(old)
	eventually(t, "no process is left", func() bool { return len(processes(t, unique)) == 0 })
}
