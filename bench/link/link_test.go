package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func up(t *testing.T, p Profile) *Link {
	t.Helper()
	needRoot(t)
	l, err := Up(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n := exist(l.names); n != 0 {
			t.Errorf("%d namespaces are left", n)
		}
	})
	return l
}

// on calls f in the namespace of a side. Sockets that it makes stay there.
func on(t *testing.T, l *Link, side Side, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		err := enter(namespacePath(l.names[side]))
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestTCPSurvives sends a stream over a link with all kinds of faults.
func TestTCPSurvives(t *testing.T) {
	bad := Way{Rate: 500e6, Delay: 200 * time.Microsecond, Loss: 0.01, Duplicate: 0.01, Reorder: 0.01}
	l := up(t, Profile{Name: "bad", Ways: [2]Way{bad, bad}, Overhead: 38, MinFrame: 84, Seed: 3})
	for _, at := range []netip.Addr{l.Addr(A), l.Addr6(A)} {
		if at.Is6() && !ipv6Enabled() {
			continue
		}
		sent := make([]byte, 4<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(sent) // never fails
		var listener net.Listener
		on(t, l, A, func() (err error) {
			listener, err = net.Listen("tcp", netip.AddrPortFrom(at, 99).String())
			return err
		})
		defer listener.Close()
		go func() {
			if c, err := listener.Accept(); err == nil {
				_, _ = c.Write(sent) // the test checks what arrives
				c.Close()
			}
		}()
		var c net.Conn
		on(t, l, B, func() (err error) {
			c, err = net.DialTimeout("tcp", listener.Addr().String(), 20*time.Second)
			return err
		})
		defer c.Close()
		c.SetDeadline(time.Now().Add(60 * time.Second))
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%s: %d bytes arrived of %d, the same: %t; %v", at, len(got), len(sent), bytes.Equal(got, sent), err)
		}
	}
	s, err := l.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.Ways[A].Lost == 0 || s.Ways[A].Duplicated == 0 || s.Ways[A].Reordered == 0 || s.Ways[A].Refused != 0 {
		t.Errorf("statistics: %+v", s.Ways[A])
	}
}

// TestDatagrams checks that without faults all datagrams arrive in order, and with loss the right
// fraction of them.
func TestDatagrams(t *testing.T) {
	for _, loss := range []float64{0, 0.1} {
		l := up(t, Profile{Name: "test", Ways: [2]Way{{Delay: time.Millisecond, Loss: loss}, {}}, Seed: 1})
		var from, to *net.UDPConn
		on(t, l, B, func() (err error) {
			to, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.Addr(B), 99)))
			return err
		})
		defer to.Close()
		on(t, l, A, func() (err error) {
			from, err = net.DialUDP("udp", nil, to.LocalAddr().(*net.UDPAddr))
			return err
		})
		defer from.Close()
		const n = 2000
		got, next := 0, uint32(0)
		b := make([]byte, 100)
		for i := range uint32(n) {
			binary.BigEndian.PutUint32(b, i)
			if _, err := from.Write(b[:60]); err != nil {
				t.Fatal(err)
			}
			if i%100 != 99 { // the datagrams under way must fit into the socket's buffer
				continue
			}
			for next <= i {
				wait := 3 * time.Second // the last ones may be lost
				if loss == 0 {
					wait = time.Minute
				}
				to.SetReadDeadline(time.Now().Add(wait))
				size, err := to.Read(b)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				if err != nil || size != 60 {
					t.Fatalf("%d bytes, %v", size, err)
				}
				number := binary.BigEndian.Uint32(b)
				if number < next {
					t.Fatalf("packet %d came after %d", number, next-1)
				}
				next = number + 1
				got++
			}
			next = i + 1
		}
		// The loss is 0.1 with a standard deviation of 0.0067.
		if lost := 1 - float64(got)/n; lost < loss*0.7 || lost > loss*1.3 {
			t.Errorf("%.3f lost; want %g", lost, loss)
		}
	}
}

// TestProbes checks that the probes with which the suite measures links end, and that the
// kernel's own segments cross.
func TestProbes(t *testing.T) {
	const delay = 50 * time.Microsecond
	var l *Link
	var p Ping
	// A link that was calibrated when the machine was busier than it is now is too fast.
	for tries := 0; tries < 10 && p.Median < delay; tries++ {
		l = up(t, gigabit(delay))
		var err error
		if p, err = l.Ping(t.Context(), 512, 50); err != nil || p.Count != 50 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p.Min < 2*delay-2*l.Lead() { // each way has its delay, minus the lead
			t.Errorf("%+v, with a lead of %v", p, l.Lead())
		}
	}
	if p.Median < delay {
		t.Errorf("%+v, with a lead of %v", p, l.Lead())
	}
	s, err := l.Stream(t.Context(), 1472, 32, 200*time.Millisecond)
	if err != nil || s.Datagrams == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	stats, err := l.Stats()
	if err != nil || stats.Ways[A].Packets < s.Datagrams || stats.Ways[A].Reads*4 > stats.Ways[A].Packets || stats.CPU == 0 {
		t.Errorf("%+v, %v; want many packets a read", stats, err)
	}
}

func TestCommand(t *testing.T) {
	l := up(t, Profile{Name: "test"})
	cmd := l.Command(t.Context(), B, "sh", "-c", "echo $0 $HAUL_LINK_LOCAL $HAUL_LINK_PEER $MINE; ip -o addr show dev haul0; exit 3", "arg")
	cmd.Env = append(os.Environ(), "MINE=yes", "HAUL_LINK_PEER=old")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d, %v; want 3", cmd.ProcessState.ExitCode(), err)
	}
	if text := string(out); !strings.HasPrefix(text, "arg 10.209.0.2 10.209.0.1 yes\n") || !strings.Contains(text, "10.209.0.2/24") {
		t.Errorf("it printed %q", text)
	}
	if err := l.Command(t.Context(), A, "no-such-program").Run(); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestCloseEndsPrograms checks that Close also ends programs that have left their parents.
func TestCloseEndsPrograms(t *testing.T) {
	l := up(t, Profile{Name: "test"})
	out, err := l.Command(t.Context(), A, "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(out))
	eventually(t, "the program has ended", func() bool {
		b, err := os.ReadFile("/proc/" + pid + "/cmdline")
		return err != nil || len(b) == 0 // a zombie has no command line
	})
}

func TestContextEndsLink(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Up(ctx, Profile{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	eventually(t, "the namespaces are gone", func() bool { return exist(l.names) == 0 })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestEmulatorKilled(t *testing.T) {
	l := up(t, Profile{Name: "test"})
	l.carrier.cmd.Process.Kill()
	if _, err := l.Stats(); err == nil {
		t.Error("statistics of a dead emulator")
	}
	if n := exist(l.names); n != 2 {
		t.Errorf("%d namespaces; they are removed by Close", n)
	}
}

// TestOwnerKilled checks that the emulator removes what a killed owner has left.
func TestOwnerKilled(t *testing.T) {
	needRoot(t)
	o := startOwner(t)
	o.kill()
	eventually(t, "the namespaces are gone", func() bool { return exist(o.names) == 0 })
}

// TestAllKilled checks that the next run removes leftovers, but nothing of a running one.
func TestAllKilled(t *testing.T) {
	needRoot(t)
	dead, alive := startOwner(t), startOwner(t)
	// While it is stopped, the emulator cannot remove anything when its owner ends.
	if err := syscall.Kill(dead.emulator, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	dead.kill()
	if err := syscall.Kill(dead.emulator, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := Clean(); err != nil {
		t.Fatal(err)
	}
	if exist(dead.names) != 0 || exist(alive.names) != 2 {
		t.Errorf("%d left of the dead, %d of the living; want 0 and 2", exist(dead.names), exist(alive.names))
	}
}

func TestNetem(t *testing.T) {
	needRoot(t)
	l, err := UpNetem(t.Context(), gigabit(time.Millisecond))
	if err != nil {
		if !strings.Contains(err.Error(), "netem") {
			t.Errorf("no word of netem: %v", err)
		}
		t.Skip(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
