package tftp

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// Scanning text files takes long, but delays no other transfers, nor the
// server's end.
func TestScansDelayNoOthers(t *testing.T) {
	inWorld(t, func(w *world, s *Server) {
		s.Grace = 5 * time.Second
		w.disk.Before = func(c sim.Call) error {
			if c.Op == sim.Read && c.Name == "text" {
				time.Sleep(time.Second)
			}
			return nil
		}
	}, func(w *world) {
		w.put("text", 1000*textPiece)
		want := w.put("image", 5000)
		for i := range 3 * minWorkers {
			p := w.raw(fmt.Sprintf("192.0.2.%d", 100+i))
			p.send(packet(1, "text", "netascii", nil))
			p.close()
		}
		time.Sleep(time.Second)
		began, here := time.Now(), store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), into(here, "image")); err != nil {
			t.Fatal(err)
		}
		wantFile(t, here, "image", want)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a read took %v beside text files", took)
		}
		began = time.Now()
		w.stop()
		w.served <- <-w.served // wait, and leave the result for the world's end
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the server took %v to end, with a grace of 5 s", took)
		}
	})
}

// A text file beyond the bound is refused, with a way out.
func TestTextTooLarge(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.put("text", maxText+1)
		tt := target("text")
		tt.Mode = transfer.Netascii
		_, err := w.client().Get(context.Background(), tt, into(store.Mem(0), "text"))
		wantFault(t, err, transfer.NotDefined)
	})
}

// A stuckLog is a log without a reader.
type stuckLog struct{ release chan struct{} }

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (l stuckLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l stuckLog) WithGroup(string) slog.Handler            { return l }
func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.release
	return nil
}

// A log without a reader stops neither transfers nor the server's end.
func TestStuckLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, 1)
		w.start(func(_ *world, s *Server) { s.Log = slog.New(stuckLog{release}) })
		want := w.put("image", 100)
		for i := range maxLines + 100 {
			p := w.raw(otherIP)
			p.send(rrq("missing"))
			p.wantError(fmt.Sprint("request ", i), transfer.FileNotFound)
			p.close()
		}
		here := store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), into(here, "image")); err != nil {
			t.Fatal(err)
		}
		wantFile(t, here, "image", want)
		if n := w.listener.lostLines.Load(); n == 0 {
			t.Error("no line was counted as lost")
		}
		w.end()
		close(release)
	})
}

// Nothing shows that the peer of a request exists until it answers: until
// then no memory and no disk is set aside for it.
func TestUnansweredUploadsTakeNothing(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		for range 300 {
			p := w.raw(otherIP)
			p.send(wrq(fmt.Sprint("up", p.conn.LocalAddr().Port()), "blksize", "65464", "windowsize", "65535", "tsize", "1000000000"))
			if op := transfer.OpcodeOf(p.next(time.Second)); op != transfer.OptionAck {
				t.Fatalf("answered by packet %d", op)
			}
			p.close()
		}
		for sh := range w.listener.allShards {
			if sh.memory.left != sh.memory.limit {
				t.Errorf("%d bytes taken for peers that never answered", sh.memory.limit-sh.memory.left)
			}
		}
	})
}
