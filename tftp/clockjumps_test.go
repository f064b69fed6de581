package tftp

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// A jump is a sudden change of a clock.
type jump struct {
	name string
	make func(time.Time) time.Time
	time time.Duration // how far the monotonic time jumps, which all timers use
}

// jumps has jumps of the wall clock, which is set while the monotonic clock continues, and of the
// monotonic clock. The latter jumps forward if the process was stopped or the machine was asleep,
// and backward only on a broken system.
var jumps = []jump{
	{"wall back by an hour", func(t time.Time) time.Time { return setWall(t, -time.Hour) }, 0},
	{"wall forward by a day", func(t time.Time) time.Time { return setWall(t, 24*time.Hour) }, 0},
	{"time forward by a minute", func(t time.Time) time.Time { return t.Add(time.Minute) }, time.Minute},
	{"time forward by a day", func(t time.Time) time.Time { return t.Add(24 * time.Hour) }, 24 * time.Hour},
	{"time back by an hour", func(t time.Time) time.Time { return t.Add(-time.Hour) }, -time.Hour},
}

// setWall returns the time that [time.Now] would return if the wall clock were moved by d. The only
// way to make such a Time relies on the layout of Time, which TestSetWall checks.
func setWall(t time.Time, d time.Duration) time.Time {
	type layout struct {
		wall uint64
		mono int64
		loc  *time.Location
	}
	set := t.Add(d) // changes both clocks
	(*layout)(unsafe.Pointer(&set)).mono = (*layout)(unsafe.Pointer(&t)).mono
	return set
}

func TestSetWall(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{-time.Hour, 24 * time.Hour} {
		set := setWall(now, d)
		if set.Sub(now) != 0 || !set.Equal(now) || set.Round(0).Sub(now.Round(0)) != d {
			t.Errorf("%v set by %v is %v", now, d, set)
		}
	}
}

// A jumping is a server with one transfer of each kind in progress.
type jumping struct {
	*steppedServer
	t     *testing.T
	peers []clockPeer
}

type clockPeer struct {
	name  string
	begin [][]byte // the request and the packets that follow at once
	next  []byte   // the peer's packet after the jump
	block int64    // progress of the transfer after that, in bytes
	at    netip.AddrPort
}

func newJumping(t *testing.T) *jumping {
	block := make([]byte, 512)
	j := &jumping{steppedServer: newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}, Upload: OverwriteUploads}), t: t}
	j.now = time.Now() // with a wall clock and a monotonic clock reading
	j.peers = []clockPeer{
		{name: "a read", begin: [][]byte{tftptest.RRQ("image"), tftptest.ACK(1), tftptest.ACK(2)}, next: tftptest.ACK(3), block: 3 * 512},
		{name: "a read in windows", begin: [][]byte{tftptest.RRQ("image", "windowsize", "4"), tftptest.ACK(0), tftptest.ACK(4)}, next: tftptest.ACK(8), block: 8 * 512},
		{name: "a read's OACK", begin: [][]byte{tftptest.RRQ("image", "blksize", "600")}, next: tftptest.ACK(0)},
		{name: "a read's DATA 1", begin: [][]byte{tftptest.RRQ("image")}, next: tftptest.ACK(1), block: 512},
		{name: "a write", begin: [][]byte{tftptest.WRQ("new"), tftptest.Data(1, block), tftptest.Data(2, block)}, next: tftptest.Data(3, block), block: 3 * 512},
		{name: "a write in windows", begin: [][]byte{tftptest.WRQ("new", "windowsize", "2"), tftptest.Data(1, block), tftptest.Data(2, block)}, next: tftptest.Data(3, block), block: 3 * 512},
		{name: "a write's OACK", begin: [][]byte{tftptest.WRQ("new", "blksize", "600")}, next: tftptest.Data(1, make([]byte, 600)), block: 600},
	}
	for i := range j.peers {
		p := &j.peers[i]
		p.at = addrPort(otherIP, uint16(1000+i))
		j.ask(p.at, p.begin[0])
		j.turn(0)
		j.turn(0)
		for _, b := range p.begin[1:] {
			j.say(p, b)
		}
	}
	return j
}

func (j *jumping) say(p *clockPeer, b []byte) {
	j.deliver(0, p.at, b)
	j.turn(1)
}

// moved returns how many bytes a peer's transfer has moved.
func (j *jumping) moved(p *clockPeer) int64 {
	s := j.sh.sessions[p.at]
	if s == nil {
		return -1
	}
	return s.side.moved()
}

func (j *jumping) timeouts(p *clockPeer) int64 {
	return j.sh.sessions[p.at].machine.Stats().Timeouts
}

// After any jump of the clock, the transfer of a peer that answers continues.
func TestClockJumpsHarmNoTransfer(t *testing.T) {
	for _, jump := range jumps {
		t.Run(jump.name, func(t *testing.T) {
			j := newJumping(t)
			j.now = jump.make(j.now)
			for range 5 {
				j.turn(0)
			}
			for i := range j.peers {
				p := &j.peers[i]
				j.say(p, p.next)
				if n := j.moved(p); n != p.block {
					t.Errorf("%s: %d bytes moved, want %d", p.name, n, p.block)
				}
				if s := j.sh.sessions[p.at]; s != nil && (s.answered.IsZero() || s.state != running) {
					t.Errorf("%s: does not continue", p.name)
				}
			}
			// A new peer is served as well.
			p := clockPeer{at: addrPort(otherIP, 2000)}
			j.ask(p.at, tftptest.RRQ("image"))
			j.turn(0)
			j.turn(0)
			j.say(&p, tftptest.ACK(1))
			if n := j.moved(&p); n != 512 {
				t.Errorf("a new read: %d bytes moved, want 512", n)
			}
			j.halt(t)
		})
	}
}

// After a jump, the server repeats its packets to a silent peer several times before it gives up.
// It does give up in the end.
func TestClockJumpsGiveChances(t *testing.T) {
	for _, jump := range jumps {
		t.Run(jump.name, func(t *testing.T) {
			j := newJumping(t)
			before, since := make([]int64, len(j.peers)), make([]int64, len(j.peers))
			for i := range j.peers {
				before[i] = j.timeouts(&j.peers[i])
			}
			j.now = jump.make(j.now)
			began := j.now
			turns := 0
			for ; len(j.sh.sessions) > 0 && turns < 1000; turns++ {
				j.turn(0)
				for i := range j.peers {
					if p := &j.peers[i]; j.sh.sessions[p.at] != nil {
						since[i] = j.timeouts(p) - before[i]
					}
				}
				if next := j.sh.timers.next(); next.After(j.now) {
					j.now = next
				}
			}
			for i, n := range since {
				if n < 2 { // the packet, and then the one that ended the transfer
					t.Errorf("%s: given up after %d timeouts since the jump", j.peers[i].name, n+1)
				}
			}
			if len(j.sh.sessions) > 0 {
				t.Errorf("%d transfers still wait after %d turns", len(j.sh.sessions), turns)
			}
			bound := 2*time.Minute + max(0, -jump.time)
			if took := j.now.Sub(began); took > bound {
				t.Errorf("silent peers were given up after %v", took)
			}
			j.halt(t)
		})
	}
}

// After a jump, the limits per second stay in force.
func TestClockJumpsKeepLimits(t *testing.T) {
	const rate = 10
	a := netip.MustParseAddr(otherIP)
	for _, jump := range jumps {
		t.Run(jump.name, func(t *testing.T) {
			var g guard
			g.reset(&Config{MaxTransfers: 100, MaxPerClient: 1, Rate: rate})
			now := time.Now()
			granted := func(asked int) (n int) {
				for range asked {
					if g.request(now, a) == nil {
						n++
					}
				}
				return n
			}
			refused := func(asked int) (n int) {
				for range asked {
					if g.mayRefuse(now, a) {
						n++
					}
				}
				return n
			}
			if n := granted(100); n != 2*rate {
				t.Fatalf("%d requests granted at once", n)
			}
			if n := refused(100); n != maxRefused {
				t.Fatalf("%d refused at once", n)
			}
			now = jump.make(now)
			want := 0
			if jump.time > 0 {
				want = 2 * rate
			}
			if n := granted(100); n != want {
				t.Errorf("right after: %d granted, want %d", n, want)
			}
			if n := refused(100); n > maxRefused {
				t.Errorf("right after: %d refused", n)
			}
			now = now.Add(time.Second)
			if n := granted(100); n != rate && jump.time >= 0 {
				t.Errorf("a second later: %d granted, want %d", n, rate)
			}
			if n := refused(100); n != maxRefused {
				t.Errorf("a second later: %d refused, want %d", n, maxRefused)
			}
			now = now.Add(time.Second)
			if n := granted(100); n != rate {
				t.Errorf("two seconds later: %d granted, want %d", n, rate)
			}

			var r packetio.RateLimit
			now = time.Now()
			for range 2 * maxErrors {
				r.Allow(now, maxErrors)
			}
			now = jump.make(now).Add(time.Second)
			if !r.Allow(now, maxErrors) {
				t.Error("the limit of a second does not end with it")
			}
		})
	}
}

// After a jump, an unproven transfer is still removed in time.
func TestClockJumpsUncoverSuspects(t *testing.T) {
	for _, jump := range jumps {
		if jump.time < 0 {
			continue // that would be a broken clock
		}
		var q unprovenList
		now := time.Now()
		s := &session{unproven: true, began: now}
		q.add(s)
		now = jump.make(now)
		if got := q.oldest(now); (got != nil) != (jump.time >= unprovenAge) {
			t.Errorf("%s: an unproven transfer is found right after: %v", jump.name, got != nil)
		}
		if q.oldest(now.Add(unprovenAge)) != s {
			t.Errorf("%s: no unproven transfer after a second", jump.name)
		}
	}
}

// Times without a monotonic reading jump with the wall clock. The test lists each place where this
// package keeps such times, with the reason why that is correct.
func TestWallClockIsSeldomRead(t *testing.T) {
	known := map[string]int{
		// A RateLimit starts again with any other second, whether later or earlier.
		"internal/packetio/batch.go": 1,
	}
	var files []string
	for _, pattern := range []string{"*.go", "tftpclient/*.go", "internal/*/*.go"} {
		some, err := filepath.Glob(pattern)
		if err != nil || len(some) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(some), err)
		}
		files = append(files, some...)
	}
	read := regexp.MustCompile(`\.(Unix|UnixNano|UnixMicro|UnixMilli)\(\)|\.Round\(0\)`)
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(read.FindAll(source, -1)); n != known[filepath.ToSlash(name)] && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s reads the wall's clock %d times, known are %d", name, n, known[filepath.ToSlash(name)])
		}
	}
}
