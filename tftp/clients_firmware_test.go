package tftp

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// U-Boot 2023 accepts only its own timeout, sends the size of the previous file in tsize, and
// reuses ports after a reset. So a request from the port of a running transfer starts another
// transfer if it differs from the first request, or arrives late.
func TestClientUBoot(t *testing.T) {
	ask := func(tsize string) []byte {
		return tftptest.RRQ("image", "timeout", "5", "tsize", tsize, "blksize", "1468")
	}
	for _, again := range []string{"0", "4711"} { // after a cold start, or with its memory kept
		playClient(t, func(w *simWorld) {
			b := w.put("image", 4000)
			p := w.rawAt(otherIP, 1024+1234)
			defer p.Close()
			p.Ask(ask("4711"))
			p.Want("OACK", tftptest.OACK("blksize", "1468", "tsize", "4000", "timeout", "5"))
			p.Send(tftptest.ACK(0))
			p.Want("block 1", tftptest.Data(1, b[:1468]))
			p.Send(tftptest.ACK(1))
			p.Want("block 2", tftptest.Data(2, b[1468:2936]))

			time.Sleep(3 * time.Second) // the time that a reset takes
			p.Ask(ask(again))
			p.Want("OACK after the reset", tftptest.OACK("blksize", "1468", "tsize", "4000", "timeout", "5"))
			p.Send(tftptest.ACK(0))
			p.Read(b, 1468, 1)
		},
			"replaced read image: octet blksize=1468 tsize=4000 timeout=5",
			"done read image: octet blksize=1468 tsize=4000 timeout=5")
	}
}

// lwIP's old client sends all requests from port 69.
func TestClientLwIP(t *testing.T) {
	playClient(t, func(w *simWorld) {
		one, two := w.put("one", 3000), w.put("two", 2000)
		p := w.rawAt(otherIP, 69)
		defer p.Close()
		p.Ask(tftptest.RRQ("one", "blksize", "1468"))
		p.Want("OACK", tftptest.OACK("blksize", "1468"))
		p.Send(tftptest.ACK(0))
		p.Want("block 1", tftptest.Data(1, one[:1468]))
		p.Ask(tftptest.RRQ("two", "blksize", "1468"))
		p.Want("OACK of the other", tftptest.OACK("blksize", "1468"))
		p.Send(tftptest.ACK(0))
		p.Read(two, 1468, 1)
		synctest.Wait()
		p.Ask(tftptest.RRQ("one", "blksize", "1468"))
		p.Want("OACK", tftptest.OACK("blksize", "1468"))
		p.Send(tftptest.ACK(0))
		p.Read(one, 1468, 1)
	},
		"replaced read one: octet blksize=1468",
		"done read two: octet blksize=1468",
		"done read one: octet blksize=1468")
}

// A uboot receives a window as U-Boot 2023 does: it drops blocks out of order. It answers the first
// of them by repeating the ACK of the last good block, but only once until the next good block
// arrives.
type uboot struct {
	*tftptest.Peer
	block, window     int
	good, nacked, end int
	file              []byte
	timeouts          int // how many times its own timer expired
}

const ubootTimeout = 5 * time.Second

// open requests a file until an OACK arrives.
func (u *uboot) open(name string) {
	request := tftptest.RRQ(name, "timeout", "5", "tsize", "0", "blksize", fmt.Sprint(u.block), "windowsize", fmt.Sprint(u.window))
	for transfer.OpcodeOf(u.Last) != transfer.OptionAck {
		u.Ask(request)
		u.Last = u.Next(ubootTimeout)
	}
	u.end = u.window
	u.Send(tftptest.ACK(0))
}

// receive receives a file to its end.
func (u *uboot) receive() []byte {
	u.T.Helper()
	moved := time.Now()
	for {
		b := u.Next(time.Until(moved.Add(ubootTimeout)))
		switch {
		case b == nil:
			if u.timeouts++; u.timeouts > 20 {
				u.T.Fatalf("nothing of use comes after block %d", u.good)
			}
			moved = time.Now()
			u.Send(tftptest.ACK(u.good))
		case transfer.OpcodeOf(b) == transfer.OptionAck:
			u.Send(tftptest.ACK(u.good))
		case transfer.OpcodeOf(b) == transfer.Data && u.take(b):
			moved = time.Now()
			if len(b)-transfer.HeaderSize < u.block {
				return u.file
			}
		}
	}
}

// take accepts a block, and reports whether it was the next one.
func (u *uboot) take(b []byte) bool {
	if uint16(b[2])<<8|uint16(b[3]) != uint16(u.good+1) {
		if u.nacked != u.good {
			u.nacked, u.end = u.good, u.good+u.window
			u.Send(tftptest.ACK(u.good))
		}
		return false
	}
	u.good++
	u.file = append(u.file, b[transfer.HeaderSize:]...)
	if u.good == u.end || len(b)-transfer.HeaderSize < u.block {
		u.Send(tftptest.ACK(u.good))
		u.end += u.window
	}
	return true
}

// U-Boot with tftpwindowsize reports a missing block only once, and waits for its own timer of 5
// s if the server ignores the report.
func TestClientUBootWindow(t *testing.T) {
	for _, lost := range []int{1, 6, 16, 17, 32, 69} { // in the middle and at the edges of windows
		inWorld(t, func(w *simWorld, _ *Config) {
			w.net.Default = sim.Link{Latency: time.Millisecond}
			left := 1
			w.net.Tap = func(p sim.Packet) bool {
				if left > 0 && bytes.HasPrefix(p.Data, tftptest.Data(lost, nil)) {
					left--
					return false
				}
				return true
			}
		}, func(w *simWorld) {
			b := w.put("image", 1468*68+7)
			u := &uboot{Peer: w.raw(otherIP), block: 1468, window: 16}
			defer u.Close()
			began := time.Now()
			u.open("image")
			if !bytes.Equal(u.receive(), b) {
				t.Errorf("block %d lost: the file is not what it was", lost)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("block %d lost: took %v", lost, took)
			}
			time.Sleep(10 * time.Millisecond) // until the last ACK has arrived
			w.wantResults(map[Outcome]int{Done: 1})
		})
	}
}

// On lossy paths, U-Boot's own timer does not expire as long as the server receives U-Boot's ACKs.
// If two ACKs in a row are lost, only that timer helps.
func TestClientUBootLossy(t *testing.T) {
	for seed := range uint64(20) {
		for _, bothWays := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				lossy := sim.Link{Latency: time.Millisecond, Loss: 0.02}
				w.net.Default = sim.Link{Latency: time.Millisecond}
				w.net.Route(serverIP, otherIP, lossy)
				if bothWays {
					w.net.Route(otherIP, serverIP, lossy)
				}
				w.start(nil)
				b := w.put("image", 1468*300)
				u := &uboot{Peer: w.raw(otherIP), block: 1468, window: 16}
				defer u.Close()
				u.open("image")
				if !bytes.Equal(u.receive(), b) {
					t.Errorf("seed %d: the file is not what it was", seed)
				}
				if !bothWays && u.timeouts > 0 {
					t.Errorf("seed %d: U-Boot's timer ran out %d times", seed, u.timeouts)
				}
				w.end()
			})
		}
	}
}

// barebox asks for the size of a file with a separate transfer, and reads the file in windows.
func TestClientBarebox(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 100_000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "timeout", "5", "blksize", "512", "tsize", "0"))
		p.Want("OACK", tftptest.OACK("blksize", "512", "tsize", "100000", "timeout", "5"))
		p.Send(tftptest.ACK(0))
		p.Send([]byte{0, 5, 0, 0, 0, 0})

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.Close()
		q.Ask(tftptest.RRQ("image", "timeout", "5", "blksize", "1432", "tsize", "0", "windowsize", "64"))
		q.Want("OACK", tftptest.OACK("blksize", "1432", "tsize", "100000", "timeout", "5", "windowsize", "64"))
		q.Send(tftptest.ACK(0))
		q.Read(b, 1432, 64)

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.Close()
		r.Ask(tftptest.RRQ("missing", "timeout", "5", "blksize", "512", "tsize", "0"))
		// barebox reports ENOENT for this code, and EINVAL for other codes.
		r.WantError("a file that is not there", transfer.FileNotFound)
	},
		"probe read image: octet blksize=512 tsize=100000 timeout=5",
		"done read image: octet blksize=1432 windowsize=64 tsize=100000 timeout=5",
		"refused read missing: octet")
}

// iPXE requests only the size with tftpsize://, and fetches in lock-step.
func TestClientIPXE(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 4000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "blksize", "1432", "tsize", "0"))
		p.Want("OACK", tftptest.OACK("blksize", "1432", "tsize", "4000"))
		p.Send(tftptest.ErrorPacket(0, "TFTP Aborted"))

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.Close()
		q.Ask(tftptest.RRQ("image", "blksize", "1432", "tsize", "0"))
		q.Want("OACK", tftptest.OACK("blksize", "1432", "tsize", "4000"))
		q.Send(tftptest.ACK(0))
		q.Read(b, 1432, 1)
	},
		"probe read image: octet blksize=1432 tsize=4000",
		"done read image: octet blksize=1432 tsize=4000")
}

// iPXE acknowledges all DATA. On a path that duplicates every packet, their number must not keep
// growing.
func TestClientIPXEDoublingPath(t *testing.T) {
	sent := 0
	inWorld(t, func(w *simWorld, _ *Config) {
		w.net.Default = sim.Link{Latency: time.Millisecond, Duplicate: 1}
		w.net.Tap = func(p sim.Packet) bool {
			if transfer.OpcodeOf(p.Data) == transfer.Data {
				sent++
			}
			return true
		}
	}, func(w *simWorld) {
		b := w.put("image", 1432*50+7)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "blksize", "1432", "tsize", "0"))
		var got []byte
		for good, last := 0, false; !last; {
			b := p.Next(tftptest.Patience)
			switch transfer.OpcodeOf(b) {
			case transfer.Data:
				if int(b[3]) == good+1 {
					good++
					got = append(got, b[transfer.HeaderSize:]...)
					last = len(b) < transfer.HeaderSize+1432
				}
				fallthrough
			case transfer.OptionAck:
				p.Send(tftptest.ACK(good))
			default:
				t.Fatalf("got %.60q", b)
			}
		}
		if !bytes.Equal(got, b) {
			t.Error("the file is not what it was")
		}
		if sent > 51 {
			t.Errorf("%d DATA sent for 51 blocks", sent)
		}
	})
}

// GRUB 2 opens many files, reads their beginnings and closes them with ERROR 0. Once it has
// acknowledged a block, the transfer does not count as a probe.
func TestClientGRUB(t *testing.T) {
	ask := func(name string) []byte { return tftptest.RRQ(name, "blksize", "1024", "tsize", "0") }
	playClient(t, func(w *simWorld) {
		b := w.put("grub/grub.cfg", 4000)
		w.put("empty", 0)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(ask("/grub/grub.cfg"))
		p.Want("OACK", tftptest.OACK("blksize", "1024", "tsize", "4000"))
		p.Send(tftptest.ACK(0))
		p.Want("block 1", tftptest.Data(1, b[:1024]))
		p.Send(tftptest.ACK(1))
		p.Want("block 2", tftptest.Data(2, b[1024:2048]))
		p.Send(tftptest.ACK(2))
		p.Send(tftptest.ErrorPacket(0, "closed"))

		synctest.Wait()
		q := w.raw(otherIP) // this file is closed right after it is opened
		defer q.Close()
		q.Ask(ask("/grub/grub.cfg"))
		q.Want("OACK", tftptest.OACK("blksize", "1024", "tsize", "4000"))
		q.Send(tftptest.ACK(0))
		q.Send(tftptest.ErrorPacket(0, "closed"))

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.Close()
		r.Ask(ask("/empty"))
		r.Want("an OACK all the same", tftptest.OACK("blksize", "1024"))
		r.Send(tftptest.ACK(0))
		r.Read(nil, 1024, 1)

		synctest.Wait()
		s := w.raw(otherIP)
		defer s.Close()
		s.Ask(ask("/grub/grub.cfg"))
		s.Want("OACK", tftptest.OACK("blksize", "1024", "tsize", "4000"))
		s.Send(tftptest.ACK(0))
		s.Read(b, 1024, 1)
	},
		"ended by peer read /grub/grub.cfg: octet blksize=1024 tsize=4000",
		"probe read /grub/grub.cfg: octet blksize=1024 tsize=4000",
		"done read /empty: octet blksize=1024",
		"done read /grub/grub.cfg: octet blksize=1024 tsize=4000")
}

// UEFI PXE asks for the size, sends ERROR 8, and fetches from its next port.
func TestClientUEFI(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("boot.efi", 8000)
		p := w.rawAt(otherIP, 1800)
		defer p.Close()
		p.Ask(tftptest.RRQ("boot.efi", "tsize", "0", "blksize", "1468"))
		p.Want("OACK", tftptest.OACK("blksize", "1468", "tsize", "8000"))
		p.Send(tftptest.ErrorPacket(8, "User aborted the transfer"))
		synctest.Wait()
		q := w.rawAt(otherIP, p.Port()+1)
		defer q.Close()
		q.Ask(tftptest.RRQ("boot.efi", "blksize", "1468"))
		q.Want("OACK", tftptest.OACK("blksize", "1468"))
		q.Send(tftptest.ACK(0))
		q.Read(b, 1468, 1)

		synctest.Wait()
		r := w.rawAt(otherIP, q.Port()+1) // edk2 2022.11 supports windows
		defer r.Close()
		r.Ask(tftptest.RRQ("boot.efi", "tsize", "0", "blksize", "1468", "windowsize", "4"))
		r.Want("OACK", tftptest.OACK("blksize", "1468", "tsize", "8000", "windowsize", "4"))
		r.Send(tftptest.ErrorPacket(8, "User aborted the transfer"))
		synctest.Wait()
		s := w.rawAt(otherIP, r.Port()+1)
		defer s.Close()
		s.Ask(tftptest.RRQ("boot.efi", "blksize", "1468", "windowsize", "4"))
		s.Want("OACK", tftptest.OACK("blksize", "1468", "windowsize", "4"))
		s.Send(tftptest.ACK(0))
		s.Read(b, 1468, 4)
	},
		"probe read boot.efi: octet blksize=1468 tsize=8000",
		"done read boot.efi: octet blksize=1468",
		"probe read boot.efi: octet blksize=1468 windowsize=4 tsize=8000",
		"done read boot.efi: octet blksize=1468 windowsize=4")
}

// A Raspberry Pi sends each request twice within milliseconds, and first checks whether its files
// exist. Many of them boot at the same time.
func TestClientRaspberryPi(t *testing.T) {
	const name = "9ffefdef/start.elf"
	playClient(t, func(w *simWorld) {
		b := w.put(name, 3000)
		p := w.rawAt(otherIP, 49152)
		defer p.Close()
		p.Ask(tftptest.RRQ(name, "tsize", "0"))
		time.Sleep(2 * time.Millisecond)
		p.Ask(tftptest.RRQ(name, "tsize", "0"))
		p.Want("OACK", tftptest.OACK("tsize", "3000"))
		p.WantNothing("the repeat", 100*time.Millisecond)
		p.Send(tftptest.ErrorPacket(0, "Early terminate"))

		synctest.Wait()
		q := w.rawAt(otherIP, p.Port()+1)
		defer q.Close()
		q.Ask(tftptest.RRQ(name, "tsize", "0", "blksize", "1024"))
		time.Sleep(2 * time.Millisecond)
		q.Ask(tftptest.RRQ(name, "tsize", "0", "blksize", "1024"))
		q.Want("OACK", tftptest.OACK("blksize", "1024", "tsize", "3000"))
		answer := q.To
		q.Send(tftptest.ACK(0))
		q.Want("block 1", tftptest.Data(1, b[:1024]))
		q.Ask(tftptest.RRQ(name, "tsize", "0", "blksize", "1024")) // a late repeat of the request
		q.WantNothing("the late repeat", 5*time.Millisecond)
		q.To = answer
		q.Send(tftptest.ACK(1))
		q.Want("block 2", tftptest.Data(2, b[1024:2048]))
		q.Send(tftptest.ACK(2))
		q.Want("block 3", tftptest.Data(3, b[2048:]))
		q.Send(tftptest.ACK(3))
		if n := w.disk.Calls(sim.Open); n != 2 {
			t.Errorf("%d files opened for two requests and their repeats", n)
		}
	},
		"probe read "+name+": octet tsize=3000",
		"done read "+name+": octet blksize=1024 tsize=3000")
}

// 48 boards boot at the same time, and each of them sends its request twice.
func TestClientRaspberryPis(t *testing.T) {
	const boards = 48
	playClient(t, func(w *simWorld) {
		b := w.put("start.elf", 5000)
		var wg sync.WaitGroup
		for i := range boards {
			wg.Go(func() {
				p := w.rawAt(fmt.Sprint("203.0.113.", 1+i), 49152)
				defer p.Close()
				p.Ask(tftptest.RRQ("start.elf", "tsize", "0", "blksize", "1024"))
				p.Ask(tftptest.RRQ("start.elf", "tsize", "0", "blksize", "1024"))
				// Simulated time passes only when the server has received both requests.
				time.Sleep(time.Millisecond)
				p.Want("OACK", tftptest.OACK("blksize", "1024", "tsize", "5000"))
				p.Send(tftptest.ACK(0))
				p.Read(b, 1024, 1)
			})
		}
		wg.Wait()
		if n := w.disk.Calls(sim.Open); n != boards {
			t.Errorf("%d files opened for %d boards", n, boards)
		}
	}, slices.Repeat([]string{"done read start.elf: octet blksize=1024 tsize=5000"}, boards)...)
}

// Windows' bootmgr uses backslashes in file names, and reads in windows of 4.
func TestClientWindows(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("Boot/BCD", 12_000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ(`\Boot\BCD`, "tsize", "0", "blksize", "1456", "windowsize", "4"))
		p.Want("OACK", tftptest.OACK("blksize", "1456", "tsize", "12000", "windowsize", "4"))
		p.Send(tftptest.ACK(0))
		p.Read(b, 1456, 4)
	}, `done read \Boot\BCD: octet blksize=1456 windowsize=4 tsize=12000`)
}
