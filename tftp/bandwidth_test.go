package tftp

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

const pacedBlock = 1024

// A pacedWorld has peers that each read or write a file under a bandwidth limit.
type pacedWorld struct {
	*simWorld
	mu    sync.Mutex
	stats transfer.Stats // guarded by mu; sums over all transfers
}

// inPacedWorld runs f with a server whose limits configure has set.
func inPacedWorld(t *testing.T, configure func(*Config), f func(*pacedWorld)) {
	t.Helper()
	p := &pacedWorld{}
	inWorld(t, func(w *simWorld, s *Config) {
		p.simWorld = w
		s.Hooks.Ended = func(e *Transfer) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.stats.Resent += e.Resent
			p.stats.Timeouts += e.Timeouts
		}
		configure(s)
	}, func(*simWorld) { f(p) })
}

// move makes a peer of a host read or write a file, with the given window.
func (p *pacedWorld) move(ip, name string, size, window int, write bool) {
	peer := p.raw(ip)
	defer peer.Close()
	options := []string{"blksize", strconv.Itoa(pacedBlock), "windowsize", strconv.Itoa(window)}
	if !write {
		peer.Ask(tftptest.RRQ(name, options...))
		peer.Want("the OACK", tftptest.OACK(options...))
		peer.Send(tftptest.ACK(0))
		peer.Read(tftptest.Content(name, size), pacedBlock, window)
		return
	}
	peer.Ask(tftptest.WRQ(name, options...))
	peer.Want("the OACK", tftptest.OACK(options...))
	file, last := tftptest.Content(name, size), size/pacedBlock+1
	for n := 1; n <= last; n++ {
		peer.Send(tftptest.Data(n, file[(n-1)*pacedBlock:min(n*pacedBlock, size)]))
		if n%window == 0 || n == last {
			peer.Want(fmt.Sprint("ACK ", n), tftptest.ACK(n))
		}
	}
}

// race makes each of some peers move a file at the same time, and returns how long each of them
// took.
func (p *pacedWorld) race(ips []string, size, window int, write bool) []time.Duration {
	if !write {
		for i := range ips {
			p.put(fmt.Sprint(i), size)
		}
	}
	began, took := time.Now(), make([]time.Duration, len(ips))
	var all sync.WaitGroup
	for i, ip := range ips {
		all.Go(func() {
			p.move(ip, fmt.Sprint(i), size, window, write)
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	return took
}

var everyWay = []struct {
	write  bool
	window int
}{{false, 1}, {false, 8}, {true, 1}, {true, 8}}

// All transfers together stay within the limit, and each gets an equal share. The limit causes no
// resends, by either side's timer.
func TestBandwidth(t *testing.T) {
	const bandwidth, size = 400_000, 400 << 10
	peers := []string{clientIP, clientIP, otherIP, clientIP}
	for _, way := range everyWay {
		inPacedWorld(t, func(s *Config) { s.Bandwidth = bandwidth }, func(p *pacedWorld) {
			want := time.Duration(len(peers)*size) * time.Second / bandwidth
			for i, took := range p.race(peers, size, way.window, way.write) {
				if took < want*3/4-rate.Burst || took > want*5/4 {
					t.Errorf("%+v: peer %d was done after %v, and all bytes have %v", way, i, took, want)
				}
			}
			p.wantNoRepeats(fmt.Sprint(way))
		})
	}
}

func (p *pacedWorld) wantNoRepeats(what string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Resent != 0 || p.stats.Timeouts != 0 {
		p.t.Errorf("%s: %d packets sent again, %d timeouts", what, p.stats.Resent, p.stats.Timeouts)
	}
}

// Each address has its own limit, whatever others do.
func TestBandwidthPerClient(t *testing.T) {
	const bandwidth, size = 200_000, 300 << 10
	for _, way := range everyWay {
		inPacedWorld(t, func(s *Config) { s.BandwidthPerClient = bandwidth }, func(p *pacedWorld) {
			each := size * time.Second / bandwidth
			for i, took := range p.race([]string{clientIP, clientIP, clientIP, otherIP}, size, way.window, way.write) {
				want := 3 * each
				if i == 3 {
					want = each
				}
				if took < want*3/4-rate.Burst || took > want*5/4 {
					t.Errorf("%+v: peer %d was done after %v, want %v", way, i, took, want)
				}
			}
			p.wantNoRepeats(fmt.Sprint(way))
		})
	}
}

// Clients that move small files one after the other are limited as well, although no file has a
// second window.
func TestBandwidthOfSmallFiles(t *testing.T) {
	const bandwidth, size, files = 10_000, 1000, 20
	for _, write := range []bool{false, true} {
		inPacedWorld(t, func(s *Config) { s.BandwidthPerClient = bandwidth }, func(p *pacedWorld) {
			p.put("f", size)
			began := time.Now()
			for range files {
				p.move(clientIP, "f", size, 1, write)
			}
			if took, least := time.Since(began), (files-2)*size*time.Second/bandwidth; took < least {
				t.Errorf("write %v: %d bytes took %v, want %v", write, files*size, took, least)
			}
		})
	}
}

// If the limit is too low for the transfers, it is exceeded rather than let a peer wait too long.
// The excess does not delay later packets.
func TestBandwidthHoldsNoPacketForLong(t *testing.T) {
	const bandwidth, peers, blocks = 1000, 50, 5
	for _, write := range []bool{false, true} {
		inPacedWorld(t, func(s *Config) { s.Bandwidth = bandwidth }, func(p *pacedWorld) {
			request := []string{"blksize", "512"}
			began := time.Now()
			var all sync.WaitGroup
			for i := range peers {
				name := fmt.Sprint(i)
				if !write {
					p.put(name, blocks*512-1)
				}
				all.Go(func() {
					peer := p.raw(clientIP)
					defer peer.Close()
					if write {
						peer.Ask(tftptest.WRQ(name, request...))
						peer.Want("the OACK", tftptest.OACK(request...))
						peer.Write(tftptest.Content(name, blocks*512-1), 512)
						return
					}
					peer.Ask(tftptest.RRQ(name, request...))
					peer.Want("the OACK", tftptest.OACK(request...))
					peer.Send(tftptest.ACK(0))
					peer.Read(tftptest.Content(name, blocks*512-1), 512, 1)
				})
			}
			all.Wait()
			if took, most := time.Since(began), (blocks+1)*(maxHold+10*time.Millisecond); took > most {
				t.Errorf("write %v: %d packets of each peer took %v, want at most %v", write, blocks, took, most)
			}
			p.wantNoRepeats("held for long")
			time.Sleep(maxHold + rate.Burst)
			began = time.Now()
			last, peer := p.put("last", 10), p.raw(clientIP)
			defer peer.Close()
			peer.Ask(tftptest.RRQ("last"))
			peer.Read(last, 512, 1)
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("write %v: once all is over, a transfer takes %v", write, took)
			}
		})
	}
}

// If a peer repeats its ACK while the next block is held back, it gets that block once.
func TestBandwidthIgnoresImpatience(t *testing.T) {
	inPacedWorld(t, func(s *Config) { s.Bandwidth = 1024 }, func(p *pacedWorld) {
		const size = 5*512 + 1
		file := p.put("f", size)
		peer := p.raw(clientIP)
		defer peer.Close()
		peer.Ask(tftptest.RRQ("f"))
		got := 0
		for n := 1; n <= size/512+1; {
			switch b := peer.Next(50 * time.Millisecond); {
			case b == nil:
				peer.Send(tftptest.ACK(n - 1))
			case string(b) != string(tftptest.Data(n, file[(n-1)*512:min(n*512, size)])):
				t.Fatalf("%.20q in place of block %d", b, n)
			default:
				got++
				n++
				peer.Send(tftptest.ACK(n - 1))
			}
		}
		peer.WantNothing("behind the last block", time.Second)
		p.wantNoRepeats("an impatient peer")
	})
}

// The agreed options fit the limit. Otherwise a single block, or a window of an upload, would
// exceed it.
func TestBandwidthBoundsWindows(t *testing.T) {
	const bandwidth = 8192
	inPacedWorld(t, func(s *Config) { s.Bandwidth = bandwidth }, func(p *pacedWorld) {
		p.put("f", 100)
		for _, test := range []struct{ request, answer []byte }{
			{tftptest.WRQ("g", "windowsize", "64"), tftptest.OACK("windowsize", "8")},
			{tftptest.WRQ("g", "blksize", "1024", "windowsize", "64"), tftptest.OACK("blksize", "1024", "windowsize", "4")},
			{tftptest.WRQ("g", "blksize", "65464"), tftptest.OACK("blksize", "4096")},
			{tftptest.RRQ("f", "blksize", "65464", "windowsize", "64"), tftptest.OACK("blksize", "4096", "windowsize", "64")},
		} {
			peer := p.raw(clientIP)
			peer.Ask(test.request)
			peer.Want("the answer", test.answer)
			peer.Send(tftptest.ErrorPacket(0, "enough"))
			time.Sleep(time.Second)
			peer.Close()
		}
	})
}

// A transfer with large windows gets no more bandwidth than one in lock-step.
func TestBandwidthIsFairToLockStep(t *testing.T) {
	const bandwidth, size = 400_000, 400 << 10
	inPacedWorld(t, func(s *Config) { s.Bandwidth = bandwidth }, func(p *pacedWorld) {
		p.put("f", size)
		began, want := time.Now(), 2*size*time.Second/bandwidth
		var all sync.WaitGroup
		for _, window := range []int{1, 64} {
			all.Go(func() {
				p.move(clientIP, "f", size, window, false)
				if took := time.Since(began); took < want*3/4 || took > want*5/4 {
					t.Errorf("window %d: done after %v, and all bytes have %v", window, took, want)
				}
			})
		}
		all.Wait()
	})
}
