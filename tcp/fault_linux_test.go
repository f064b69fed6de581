//go:build linux

package tcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starvedVar makes a child of this test binary: a server with few descriptors.
const starvedVar = "HAUL_TEST_STARVED"

func init() {
	if os.Getenv(starvedVar) == "" {
		return
	}
	if err := starve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// starve echoes with few descriptors until a signal ends it.
func starve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	socket, err := Listen(ctx, "127.0.0.1:0", Options{Sockets: 1})
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 40, Max: 40}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	s := &Server{Handle: func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) }}
	fmt.Println(socket.Addr())
	begun := time.Now()
	go func() {
		for s.Counters().AcceptErrors < starvedErrors {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println(time.Since(begun))
	}()
	err = s.Serve(ctx, socket)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	fmt.Println(time.Duration(used.Utime.Nano()+used.Stime.Nano()), time.Since(begun))
	return err
}

// After starvedErrors failed accepts, the delays between them add up to more than starvedTime.
const (
	starvedErrors = 8
	starvedTime   = 600 * time.Millisecond
)

// A server without descriptors waits for some, without a busy loop, and then continues.
func TestFaultDescriptors(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), starvedVar+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	said := bufio.NewScanner(out)
	said.Scan()
	addr := said.Text()
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(faultPatience))
		return c
	}
	for range 100 {
		all = append(all, dial())
	}
	// The first of these connections is accepted, and stays open.
	echo := func(c net.Conn) error {
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	if err := echo(all[0]); err != nil {
		t.Fatalf("who came first is not served: %v", err)
	}
	said.Scan()
	if took, err := time.ParseDuration(said.Text()); err != nil || took < starvedTime {
		t.Errorf("%d failures to accept came within %v, %v", starvedErrors, took, err)
	}
	for _, c := range all {
		c.Close()
	}
	all = nil
	late := dial()
	defer late.Close()
	if err := echo(late); err != nil {
		t.Fatalf("who comes when there are descriptors again is not served: %v", err)
	}
	late.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said.Scan()
	rest := strings.Fields(said.Text())
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if len(rest) != 2 {
		t.Fatalf("the server said %q", rest)
	}
	used, err := time.ParseDuration(rest[0])
	elapsed, err2 := time.ParseDuration(rest[1])
	// A waiting server uses the processor for a few milliseconds. On a slow machine both times
	// grow.
	if err != nil || err2 != nil || used > elapsed/2 {
		t.Errorf("the server used the processor for %v of %v with nothing to do, %v, %v", used, elapsed, err, err2)
	}
}
