package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// An upload that is longer or shorter than its tsize is not published. A tsize of 0 is ignored.
func TestUploadSizeLies(t *testing.T) {
	for _, said := range []string{"0", "1", "999", "1000", "1001", "50000"} {
		inWorld(t, nil, func(w *simWorld) {
			b := tftptest.Content("new", 1000)
			p := w.raw(otherIP)
			defer p.Close()
			p.Send(tftptest.WRQ("new", "tsize", said))
			p.Want("OACK", tftptest.OACK("tsize", said))
			p.Send(tftptest.Data(1, b[:512]))
			if said != "1" {
				p.Want("ACK 1", tftptest.ACK(1))
				p.Send(tftptest.Data(2, b[512:]))
			}
			if said == "0" || said == "1000" {
				p.Want("ACK 2", tftptest.ACK(2))
				tftptest.WantFile(t, w.mem, "new", b)
				return
			}
			p.WantError("tsize "+said, transfer.NotDefined)
			tftptest.WantNoFile(t, w.mem, "new")
		})
	}
	inWorld(t, nil, func(w *simWorld) {
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.WRQ("new", "tsize", "9223372036854775807"))
		p.WantError("far too large", transfer.DiskFull)
	})
}

// An upload that does not fit is refused at once, by its announced size. Nothing is reserved for
// that size, because the request may be forged.
func TestUploadThatDoesNotFit(t *testing.T) {
	const room = 1 << 20
	for _, handlers := range []bool{false, true} {
		inWorld(t, func(w *simWorld, s *Config) {
			w.mem = store.Mem(room)
			w.disk.Store = w.mem
			if handlers {
				s.Write = func(ctx context.Context, r *Request) (store.Upload, error) {
					return w.disk.Create(ctx, r.Name, r.Create())
				}
			}
		}, func(w *simWorld) {
			ask := func(b []byte) *tftptest.Peer {
				p := w.raw(otherIP)
				w.t.Cleanup(p.Close)
				p.Send(b)
				return p
			}
			const fits = "524288"
			for i := range 20 {
				ask(tftptest.WRQ(fmt.Sprint("up", i), "tsize", fits)).Want("OACK", tftptest.OACK("tsize", fits))
			}
			ask(tftptest.WRQ("large", "tsize", "1048577")).WantError("a file that does not fit", transfer.DiskFull)
			ask([]byte("\x00\x02text\x00netascii\x00tsize\x001048577\x00")).Want("OACK of a text", tftptest.OACK("tsize", "1048577"))
			b := tftptest.Content("mine", 600_000)
			if _, err := w.client().Put(context.Background(), target("mine"), bytes.NewReader(b), int64(len(b))); err != nil {
				t.Errorf("a file that fits: %v", err)
			}
			tftptest.WantFile(t, w.mem, "mine", b)
		})
	}
}

// fakeServer answers a client's read with an OACK and then with blocks of 512 bytes until it is
// stopped.
func fakeServer(w *simWorld, oack []byte, blocks int) (tftpclient.Target, *sync.WaitGroup) {
	p := w.raw(otherIP)
	to := tftpclient.Target{Host: otherIP, Port: p.Conn.LocalAddr().Port(), Name: "image"}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer p.Close()
		if p.Next(time.Minute) == nil {
			return
		}
		p.Send(oack)
		block := 0
		for b := p.Next(time.Minute); b != nil && transfer.OpcodeOf(b) == transfer.Acknowledgement; b = p.Next(time.Minute) {
			if block++; block > blocks {
				return
			}
			n := 512
			if block == blocks {
				n = 100
			}
			p.Send(tftptest.Data(block&0xffff, make([]byte, n)))
		}
	})
	return to, &wg
}

// A client accepts no file whose size differs from the announced size, because the file may be
// truncated.
func TestDownloadSizeLies(t *testing.T) {
	for _, said := range []string{"0", "1", "1123", "1124", "1125", "1000000"} {
		inWorld(t, nil, func(w *simWorld) {
			to, wg := fakeServer(w, tftptest.OACK("blksize", "512", "tsize", said), 3)
			here := store.Mem(0)
			res, err := w.client().Get(context.Background(), to, tftptest.Into(here, "image"))
			wg.Wait()
			if said != "0" && said != "1124" {
				if !errors.Is(err, fileio.ErrNotAnnounced) {
					t.Errorf("tsize %s: %v", said, err)
				}
				tftptest.WantNoFile(t, here, "image")
				return
			}
			if err != nil || res.Bytes != 1124 {
				t.Errorf("tsize %s: %d bytes, %v", said, res.Bytes, err)
			}
			tftptest.WantFile(t, here, "image", make([]byte, 1124))
		})
	}
	inWorld(t, nil, func(w *simWorld) { // a store may rely on the size
		to, wg := fakeServer(w, tftptest.OACK("blksize", "512", "tsize", "9223372036854775807"), 3)
		_, err := w.client().Get(context.Background(), to, tftptest.Into(store.Mem(0), "image"))
		if !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("a size beyond all bounds: %v", err)
		}
		wg.Wait()
	})
}

// A file that is longer than its tsize is not fetched to its end, because the end may never arrive.
func TestEndlessSizeLies(t *testing.T) {
	const said, most = 1000, 2 * 512 // the second block of 512 bytes exceeds the announced size
	inWorld(t, nil, func(w *simWorld) {
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.WRQ("new", "tsize", fmt.Sprint(said)))
		p.Want("OACK", tftptest.OACK("tsize", fmt.Sprint(said)))
		p.Send(tftptest.Data(1, make([]byte, 512)))
		p.Want("ACK 1", tftptest.ACK(1))
		p.Send(tftptest.Data(2, make([]byte, 512)))
		p.WantError("beyond the size announced", transfer.NotDefined)
		tftptest.WantNoFile(t, w.mem, "new")
	})
	inWorld(t, nil, func(w *simWorld) {
		to, wg := fakeServer(w, tftptest.OACK("blksize", "512", "tsize", fmt.Sprint(said)), 1000)
		here := store.Mem(0)
		res, err := w.client().Get(context.Background(), to, tftptest.Into(here, "image"))
		wg.Wait()
		if !errors.Is(err, fileio.ErrNotAnnounced) || res.Bytes > most {
			t.Errorf("%d bytes of a file of 500 kB, %v", res.Bytes, err)
		}
		tftptest.WantNoFile(t, here, "image")
	})
}

// If a server never stops sending, and does not announce a size, the store ends the transfer,
// because only the store knows how much is too much.
func TestEndlessDownload(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		to, wg := fakeServer(w, tftptest.OACK("blksize", "512"), 1<<30)
		here := &sim.Disk{Store: store.Mem(1 << 20)}
		_, err := w.client().Get(context.Background(), to, tftptest.Into(here, "image"))
		if !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("%v, want ErrNoSpace", err)
		}
		wg.Wait()
		if here.Unclosed() != 0 {
			t.Error("upload left open")
		}
	})
}

// OACKs that break the rules are refused with ERROR 8.
func TestBadOptionAcks(t *testing.T) {
	for _, bad := range [][]byte{
		tftptest.OACK("blksize", "2048"), tftptest.OACK("windowsize", "9"), tftptest.OACK("timeout", "3"), tftptest.OACK("multicast", ""),
		tftptest.OACK("blksize", "x"), []byte("\x00\x06blksize\x00512"), tftptest.OACK("blksize", "8", "blksize", "16"),
	} {
		inWorld(t, nil, func(w *simWorld) {
			to, wg := fakeServer(w, bad, 0)
			_, err := w.client().Get(context.Background(), to, tftptest.Into(store.Mem(0), "image"))
			if fault, ok := errors.AsType[*transfer.Error](err); !ok || fault.Remote || fault.Code != transfer.OptionsRefused {
				t.Errorf("OACK %q: %v", bad, err)
			}
			wg.Wait()
		})
	}
}

// If a server refuses options, the client asks again without them.
func TestOptionsRefused(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		p := w.raw(otherIP)
		defer p.Close()
		port := p.Conn.LocalAddr()
		var wg sync.WaitGroup
		here := store.Mem(0)
		wg.Go(func() {
			_, err := w.client().Get(context.Background(), tftpclient.Target{Host: otherIP, Port: port.Port(), Name: "image"}, tftptest.Into(here, "image"))
			if err != nil {
				t.Error(err)
			}
		})
		if b := p.Next(time.Second); !bytes.Contains(b, []byte("blksize")) {
			t.Fatalf("request %q", b)
		}
		p.Send(tftptest.ErrorPacket(8, "no options"))
		p.Want("plain request", tftptest.RRQ("image"))
		p.Send(tftptest.Data(1, []byte("hello")))
		p.Want("ACK", tftptest.ACK(1))
		wg.Wait()
		tftptest.WantFile(t, here, "image", []byte("hello"))
	})
}

// The largest windows and blocks do not need more memory than a client has reserved.
func TestLargestWindow(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		p := w.raw(otherIP)
		defer p.Close()
		to := tftpclient.Target{Host: otherIP, Port: p.Conn.LocalAddr().Port(), Name: "image"}
		for block, want := range map[int]string{8: "16384", 1428: "16384", transfer.MaxBlockSize: "512"} {
			var wg sync.WaitGroup
			wg.Go(func() {
				c := w.client()
				c.BlockSize, c.Window = block, transfer.MaxWindow
				_, err := c.Get(context.Background(), to, tftptest.Into(store.Mem(0), "image"))
				tftptest.WantFault(t, err, transfer.NotDefined)
			})
			request := p.Next(time.Second)
			if asked := tftptest.Fields(nil, "windowsize", want); !bytes.Contains(request, asked) {
				t.Errorf("blocks of %d: request %q, want a window of %s", block, request, want)
			}
			p.Send(tftptest.ErrorPacket(0, "enough"))
			wg.Wait()
		}
	})
}

// A store that is slower than the network slows down the peer, loses nothing, and needs no more
// memory than an upload is granted.
func TestStoreSlowerThanNetwork(t *testing.T) {
	for _, mode := range []transfer.Mode{transfer.Octet, transfer.Netascii} {
		t.Run(mode.String(), func(t *testing.T) {
			inWorld(t, func(w *simWorld, _ *Config) {
				w.net.Default = sim.Link{Latency: time.Millisecond, Duplicate: 0.05, Reorder: 0.05}
				w.disk.Before = func(c sim.Call) error {
					if c.Op == sim.Write {
						time.Sleep(400 * time.Millisecond)
					}
					return nil
				}
			}, func(w *simWorld) {
				b := []byte(strings.Repeat("\n\r\n\r x", 40_000))
				c := w.client()
				to := target("new")
				to.Mode = mode
				res, err := c.Put(context.Background(), to, bytes.NewReader(b), int64(len(b)))
				if err != nil {
					t.Fatal(err)
				}
				tftptest.WantFile(t, w.mem, "new", b)
				// The client does not endlessly repeat blocks that the server does not confirm.
				if needed := int64(len(b) / c.BlockSize); res.Sent > 8*needed {
					t.Errorf("%d packets sent for some %d blocks", res.Sent, needed)
				}
			})
		})
	}
}

// Size requests the size without fetching the file.
func TestSize(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		for _, size := range []int{0, 1, 511, 512, 100_000} {
			name := fmt.Sprint(size)
			w.put(name, size)
			sent := 0
			w.net.Tap = func(p sim.Packet) bool {
				sent++
				return true
			}
			n, err := w.client().Size(context.Background(), target(name))
			if err != nil || n != int64(size) || sent > 5 {
				t.Errorf("size of %d bytes: %d, %v, after %d packets", size, n, err, sent)
			}
			w.net.Tap = nil
		}
		_, err := w.client().Size(context.Background(), target("missing"))
		tftptest.WantFault(t, err, transfer.FileNotFound)
		w.wantResults(map[Outcome]int{Probe: 5, Refused: 1})
		synctest.Wait()
		if n := w.server.count.Load(); n != 0 {
			t.Errorf("%d sessions left", n)
		}
	})
}

// Options that do not fit into a request are an error, not a panic.
func TestClientChecksOptions(t *testing.T) {
	for _, c := range []*tftpclient.Client{
		{BlockSize: 7}, {BlockSize: -512}, {BlockSize: 65465}, {Window: -1}, {Window: 65536, BlockSize: 60000},
		{Timeout: time.Millisecond}, {Timeout: 256 * time.Second}, {MicroTimeout: time.Millisecond},
	} {
		if _, err := c.Get(t.Context(), tftpclient.Target{Host: "127.0.0.1", Name: "x"}, nil); err == nil || errors.Is(err, transfer.ErrSilent) {
			t.Errorf("%+v: %v", c.BlockSize, err)
		}
	}
}
