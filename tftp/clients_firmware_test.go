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
	"github.com/haul-project/haul/tftp/transfer"
)

// U-Boot 2023 takes its own timeout only, sends the size of the file before in
// tsize, and has ports that repeat after a reset: the new request from a live
// port begins anew, if it is another one or comes late.
func TestClientUBoot(t *testing.T) {
	ask := func(tsize string) []byte { return rrq("image", "timeout", "5", "tsize", tsize, "blksize", "1468") }
	for _, again := range []string{"0", "4711"} { // cold, or with the memory kept
		playClient(t, func(w *simWorld) {
			b := w.put("image", 4000)
			p := w.rawAt(otherIP, 1024+1234)
			defer p.close()
			p.ask(ask("4711"))
			p.want("OACK", oack("blksize", "1468", "tsize", "4000", "timeout", "5"))
			p.send(ack(0))
			p.want("block 1", data(1, b[:1468]))
			p.send(ack(1))
			p.want("block 2", data(2, b[1468:2936]))

			time.Sleep(3 * time.Second) // reset
			p.ask(ask(again))
			p.want("OACK after the reset", oack("blksize", "1468", "tsize", "4000", "timeout", "5"))
			p.send(ack(0))
			p.read(b, 1468, 1)
		},
			"replaced read image: octet blksize=1468 tsize=4000 timeout=5",
			"done read image: octet blksize=1468 tsize=4000 timeout=5")
	}
}

// lwIP's old client sends all its requests from port 69.
func TestClientLwIP(t *testing.T) {
	playClient(t, func(w *simWorld) {
		one, two := w.put("one", 3000), w.put("two", 2000)
		p := w.rawAt(otherIP, 69)
		defer p.close()
		p.ask(rrq("one", "blksize", "1468"))
		p.want("OACK", oack("blksize", "1468"))
		p.send(ack(0))
		p.want("block 1", data(1, one[:1468]))
		p.ask(rrq("two", "blksize", "1468"))
		p.want("OACK of the other", oack("blksize", "1468"))
		p.send(ack(0))
		p.read(two, 1468, 1)
		synctest.Wait()
		p.ask(rrq("one", "blksize", "1468"))
		p.want("OACK", oack("blksize", "1468"))
		p.send(ack(0))
		p.read(one, 1468, 1)
	},
		"replaced read one: octet blksize=1468",
		"done read two: octet blksize=1468",
		"done read one: octet blksize=1468")
}

// A uboot receives as U-Boot 2023 does in a window: it repeats the ACK of the
// last good block at a block out of order, once for each such ACK, and drops
// what is out of order.
type uboot struct {
	*rawPeer
	block, window     int
	good, nacked, end int
	file              []byte
	timeouts          int // of its own timer
}

const ubootTimeout = 5 * time.Second

// open asks for a file until an OACK comes.
func (u *uboot) open(name string) {
	request := rrq(name, "timeout", "5", "tsize", "0", "blksize", fmt.Sprint(u.block), "windowsize", fmt.Sprint(u.window))
	for transfer.OpcodeOf(u.last) != transfer.OptionAck {
		u.ask(request)
		u.last = u.next(ubootTimeout)
	}
	u.end = u.window
	u.send(ack(0))
}

// receive takes a file to its end.
func (u *uboot) receive() []byte {
	u.t.Helper()
	moved := time.Now()
	for {
		b := u.next(time.Until(moved.Add(ubootTimeout)))
		switch {
		case b == nil:
			if u.timeouts++; u.timeouts > 20 {
				u.t.Fatalf("nothing of use comes after block %d", u.good)
			}
			moved = time.Now()
			u.send(ack(u.good))
		case transfer.OpcodeOf(b) == transfer.OptionAck:
			u.send(ack(u.good))
		case transfer.OpcodeOf(b) == transfer.Data && u.take(b):
			moved = time.Now()
			if len(b)-transfer.HeaderSize < u.block {
				return u.file
			}
		}
	}
}

// take takes a block, and reports whether it was the next.
func (u *uboot) take(b []byte) bool {
	if uint16(b[2])<<8|uint16(b[3]) != uint16(u.good+1) {
		if u.nacked != u.good {
			u.nacked, u.end = u.good, u.good+u.window
			u.send(ack(u.good))
		}
		return false
	}
	u.good++
	u.file = append(u.file, b[transfer.HeaderSize:]...)
	if u.good == u.end || len(b)-transfer.HeaderSize < u.block {
		u.send(ack(u.good))
		u.end += u.window
	}
	return true
}

// U-Boot with tftpwindowsize says once that a block is missing, and waits for
// its own timer, of 5 s, if the server ignores that.
func TestClientUBootWindow(t *testing.T) {
	for _, lost := range []int{1, 6, 16, 17, 32, 69} { // in the midst and at the edges of windows
		inWorld(t, func(w *simWorld, _ *Server) {
			w.net.Default = sim.Link{Latency: time.Millisecond}
			left := 1
			w.net.Tap = func(p sim.Packet) bool {
				if left > 0 && bytes.HasPrefix(p.Data, data(lost, nil)) {
					left--
					return false
				}
				return true
			}
		}, func(w *simWorld) {
			b := w.put("image", 1468*68+7)
			u := &uboot{rawPeer: w.raw(otherIP), block: 1468, window: 16}
			defer u.close()
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

// The same on lossy paths. As long as U-Boot is heard, its own timer never runs
// out; when two of its ACKs in a row are lost, nothing else can help.
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
				u := &uboot{rawPeer: w.raw(otherIP), block: 1468, window: 16}
				defer u.close()
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

// barebox looks a file up for its size by a transfer of its own, and reads it
// in windows.
func TestClientBarebox(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 100_000)
		p := w.raw(otherIP)
		defer p.close()
		p.ask(rrq("image", "timeout", "5", "blksize", "512", "tsize", "0"))
		p.want("OACK", oack("blksize", "512", "tsize", "100000", "timeout", "5"))
		p.send(ack(0))
		p.send([]byte{0, 5, 0, 0, 0, 0})

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.close()
		q.ask(rrq("image", "timeout", "5", "blksize", "1432", "tsize", "0", "windowsize", "64"))
		q.want("OACK", oack("blksize", "1432", "tsize", "100000", "timeout", "5", "windowsize", "64"))
		q.send(ack(0))
		q.read(b, 1432, 64)

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.close()
		r.ask(rrq("missing", "timeout", "5", "blksize", "512", "tsize", "0"))
		r.wantError("a file that is not there", transfer.FileNotFound) // ENOENT; others are EINVAL
	},
		"probe read image: octet blksize=512 tsize=100000 timeout=5",
		"done read image: octet blksize=1432 windowsize=64 tsize=100000 timeout=5",
		"refused read missing: octet")
}

// iPXE asks for the size alone with tftpsize://, and fetches in lockstep.
func TestClientIPXE(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 4000)
		p := w.raw(otherIP)
		defer p.close()
		p.ask(rrq("image", "blksize", "1432", "tsize", "0"))
		p.want("OACK", oack("blksize", "1432", "tsize", "4000"))
		p.send(errorPacket(0, "TFTP Aborted"))

		synctest.Wait()
		q := w.raw(otherIP)
		defer q.close()
		q.ask(rrq("image", "blksize", "1432", "tsize", "0"))
		q.want("OACK", oack("blksize", "1432", "tsize", "4000"))
		q.send(ack(0))
		q.read(b, 1432, 1)
	},
		"probe read image: octet blksize=1432 tsize=4000",
		"done read image: octet blksize=1432 tsize=4000")
}

// iPXE acknowledges all DATA. On a path that doubles every packet that must not
// make more and more of them.
func TestClientIPXEDoublingPath(t *testing.T) {
	sent := 0
	inWorld(t, func(w *simWorld, _ *Server) {
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
		defer p.close()
		p.ask(rrq("image", "blksize", "1432", "tsize", "0"))
		var got []byte
		for good, last := 0, false; !last; {
			b := p.next(patience)
			switch transfer.OpcodeOf(b) {
			case transfer.Data:
				if int(b[3]) == good+1 {
					good++
					got = append(got, b[transfer.HeaderSize:]...)
					last = len(b) < transfer.HeaderSize+1432
				}
				fallthrough
			case transfer.OptionAck:
				p.send(ack(good))
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

// GRUB 2 opens many files, looks into them and closes them by ERROR 0: that is
// no probe once it has acknowledged a block.
func TestClientGRUB(t *testing.T) {
	ask := func(name string) []byte { return rrq(name, "blksize", "1024", "tsize", "0") }
	playClient(t, func(w *simWorld) {
		b := w.put("grub/grub.cfg", 4000)
		w.put("empty", 0)
		p := w.raw(otherIP)
		defer p.close()
		p.ask(ask("/grub/grub.cfg"))
		p.want("OACK", oack("blksize", "1024", "tsize", "4000"))
		p.send(ack(0))
		p.want("block 1", data(1, b[:1024]))
		p.send(ack(1))
		p.want("block 2", data(2, b[1024:2048]))
		p.send(ack(2))
		p.send(errorPacket(0, "closed"))

		synctest.Wait()
		q := w.raw(otherIP) // closed as soon as it is open
		defer q.close()
		q.ask(ask("/grub/grub.cfg"))
		q.want("OACK", oack("blksize", "1024", "tsize", "4000"))
		q.send(ack(0))
		q.send(errorPacket(0, "closed"))

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.close()
		r.ask(ask("/empty"))
		r.want("an OACK all the same", oack("blksize", "1024"))
		r.send(ack(0))
		r.read(nil, 1024, 1)

		synctest.Wait()
		s := w.raw(otherIP)
		defer s.close()
		s.ask(ask("/grub/grub.cfg"))
		s.want("OACK", oack("blksize", "1024", "tsize", "4000"))
		s.send(ack(0))
		s.read(b, 1024, 1)
	},
		"ended by peer read /grub/grub.cfg: octet blksize=1024 tsize=4000",
		"probe read /grub/grub.cfg: octet blksize=1024 tsize=4000",
		"done read /empty: octet blksize=1024",
		"done read /grub/grub.cfg: octet blksize=1024 tsize=4000")
}

// UEFI PXE asks for the size, says ERROR 8, and fetches from its next port.
func TestClientUEFI(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("boot.efi", 8000)
		p := w.rawAt(otherIP, 1800)
		defer p.close()
		p.ask(rrq("boot.efi", "tsize", "0", "blksize", "1468"))
		p.want("OACK", oack("blksize", "1468", "tsize", "8000"))
		p.send(errorPacket(8, "User aborted the transfer"))
		synctest.Wait()
		q := w.rawAt(otherIP, p.port()+1)
		defer q.close()
		q.ask(rrq("boot.efi", "blksize", "1468"))
		q.want("OACK", oack("blksize", "1468"))
		q.send(ack(0))
		q.read(b, 1468, 1)

		synctest.Wait()
		r := w.rawAt(otherIP, q.port()+1) // edk2 2022.11 has windows
		defer r.close()
		r.ask(rrq("boot.efi", "tsize", "0", "blksize", "1468", "windowsize", "4"))
		r.want("OACK", oack("blksize", "1468", "tsize", "8000", "windowsize", "4"))
		r.send(errorPacket(8, "User aborted the transfer"))
		synctest.Wait()
		s := w.rawAt(otherIP, r.port()+1)
		defer s.close()
		s.ask(rrq("boot.efi", "blksize", "1468", "windowsize", "4"))
		s.want("OACK", oack("blksize", "1468", "windowsize", "4"))
		s.send(ack(0))
		s.read(b, 1468, 4)
	},
		"probe read boot.efi: octet blksize=1468 tsize=8000",
		"done read boot.efi: octet blksize=1468",
		"probe read boot.efi: octet blksize=1468 windowsize=4 tsize=8000",
		"done read boot.efi: octet blksize=1468 windowsize=4")
}

// A Raspberry Pi sends its requests twice within milliseconds, looks for its
// files first, and comes in crowds.
func TestClientRaspberryPi(t *testing.T) {
	const name = "9ffefdef/start.elf"
	playClient(t, func(w *simWorld) {
		b := w.put(name, 3000)
		p := w.rawAt(otherIP, 49152)
		defer p.close()
		p.ask(rrq(name, "tsize", "0"))
		time.Sleep(2 * time.Millisecond)
		p.ask(rrq(name, "tsize", "0"))
		p.want("OACK", oack("tsize", "3000"))
		p.wantNothing("the repeat", 100*time.Millisecond)
		p.send(errorPacket(0, "Early terminate"))

		synctest.Wait()
		q := w.rawAt(otherIP, p.port()+1)
		defer q.close()
		q.ask(rrq(name, "tsize", "0", "blksize", "1024"))
		time.Sleep(2 * time.Millisecond)
		q.ask(rrq(name, "tsize", "0", "blksize", "1024"))
		q.want("OACK", oack("blksize", "1024", "tsize", "3000"))
		answer := q.to
		q.send(ack(0))
		q.want("block 1", data(1, b[:1024]))
		q.ask(rrq(name, "tsize", "0", "blksize", "1024")) // a late repeat
		q.wantNothing("the late repeat", 5*time.Millisecond)
		q.to = answer
		q.send(ack(1))
		q.want("block 2", data(2, b[1024:2048]))
		q.send(ack(2))
		q.want("block 3", data(3, b[2048:]))
		q.send(ack(3))
		if n := w.disk.Calls(sim.Open); n != 2 {
			t.Errorf("%d files opened for two requests and their repeats", n)
		}
	},
		"probe read "+name+": octet tsize=3000",
		"done read "+name+": octet blksize=1024 tsize=3000")
}

// 48 boards at once, each of which asks twice.
func TestClientRaspberryPis(t *testing.T) {
	const boards = 48
	playClient(t, func(w *simWorld) {
		b := w.put("start.elf", 5000)
		var wg sync.WaitGroup
		for i := range boards {
			wg.Go(func() {
				p := w.rawAt(fmt.Sprint("203.0.113.", 1+i), 49152)
				defer p.close()
				p.ask(rrq("start.elf", "tsize", "0", "blksize", "1024"))
				p.ask(rrq("start.elf", "tsize", "0", "blksize", "1024"))
				time.Sleep(time.Millisecond) // time passes when the server has taken both
				p.want("OACK", oack("blksize", "1024", "tsize", "5000"))
				p.send(ack(0))
				p.read(b, 1024, 1)
			})
		}
		wg.Wait()
		if n := w.disk.Calls(sim.Open); n != boards {
			t.Errorf("%d files opened for %d boards", n, boards)
		}
	}, slices.Repeat([]string{"done read start.elf: octet blksize=1024 tsize=5000"}, boards)...)
}

// Windows' bootmgr names files with backslashes, and reads in windows of 4.
func TestClientWindows(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("Boot/BCD", 12_000)
		p := w.raw(otherIP)
		defer p.close()
		p.ask(rrq(`\Boot\BCD`, "tsize", "0", "blksize", "1456", "windowsize", "4"))
		p.want("OACK", oack("blksize", "1456", "tsize", "12000", "windowsize", "4"))
		p.send(ack(0))
		p.read(b, 1456, 4)
	}, `done read \Boot\BCD: octet blksize=1456 windowsize=4 tsize=12000`)
}
