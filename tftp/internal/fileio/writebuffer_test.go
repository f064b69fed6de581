package fileio

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
)

// A file is complete for any order of its blocks within a window and any timing of a worker's
// writes.
func TestWriteBufferAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		block, window := 1+rng.IntN(40), 1+rng.IntN(9)
		want := make([]byte, rng.IntN(3000))
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		got := make(sliceWriter, len(want))
		var in WriteBuffer
		in.Reset(2*window*block+rng.IntN(2)*rng.IntN(100), int64(len(want)), transfer.Octet)
		flush := func() {
			in.Mark()
			if err := in.Flush(got); err != nil {
				t.Fatal(err)
			}
			in.Free()
		}
		total := len(want)/block + 1
		have := make([]bool, total+1)
		for acked := 0; acked < total; {
			if !in.Fits(int64(window * block)) {
				flush()
			}
			end := min(acked+window, total)
			for _, i := range rng.Perm(end - acked) {
				k := acked + 1 + i
				from := (k - 1) * block
				c := protocol.Chunk{Offset: int64(from), Data: want[from:min(from+block, len(want))]}
				have[k] = true
				inOrder := acked
				for inOrder < total && have[inOrder+1] {
					inOrder++
				}
				if err := in.Put(c, min(int64(inOrder*block), int64(len(want)))); err != nil {
					t.Fatalf("seed %d: block %d: %v", seed, k, err)
				}
				if rng.IntN(3) == 0 {
					flush()
				}
			}
			acked = end
		}
		flush()
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the file differs", seed)
		}
	}
}

// Text for which the buffer has reported room always fits, also when a window ends in a CR whose
// meaning is not known yet.
func TestWriteBufferText(t *testing.T) {
	const block, window = 16, 4
	pieces := []string{"\r\n", "\r\x00", "\r", "\n", "x", "\r\r\n", "\x00"}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ascii []byte
		switch seed {
		case 0: // exactly one window, after a pending CR
			ascii = append([]byte("x"), bytes.Repeat([]byte("\r\n"), block*window-1)...)
			ascii = append(append(ascii, '\r'), bytes.Repeat([]byte("y"), 3*block*window)...)
		default:
			for one := pieces[rng.IntN(len(pieces))]; len(ascii) < 1000; {
				ascii = append(ascii, one...)
				if rng.IntN(20) == 0 {
					one = pieces[rng.IntN(len(pieces))]
				}
			}
		}
		var decoder protocol.NetasciiDecoder
		want := decoder.End(decoder.Append(nil, ascii))

		var in WriteBuffer
		in.Reset(2*window*block, 0, transfer.Netascii)
		got := make(sliceWriter, len(want))
		for off, n := 0, 0; ; off, n = off+block, n+1 {
			if n%window == 0 && !in.Fits(window*block) {
				in.Mark()
				if err := in.Flush(got); err != nil {
					t.Fatal(err)
				}
				in.Free()
			}
			c := protocol.Chunk{Offset: int64(off), Data: ascii[off:min(off+block, len(ascii))]}
			c.Last = len(c.Data) < block
			if err := in.Put(c, int64(off+len(c.Data))); err != nil {
				t.Fatalf("seed %d: offset %d: %v", seed, off, err)
			}
			if c.Last {
				break
			}
		}
		in.Mark()
		if err := in.Flush(got); err != nil {
			t.Fatal(err)
		}
		if in.received != int64(len(want)) || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: text differs", seed)
		}
	}
}

type sliceWriter []byte

func (w sliceWriter) WriteAt(p []byte, off int64) (int, error) {
	if copy(w[off:], p) < len(p) {
		return 0, store.ErrNoSpace
	}
	return len(p), nil
}

func TestWriteBufferLimit(t *testing.T) {
	var in WriteBuffer
	in.Reset(100, 50, transfer.Octet)
	if err := in.Put(protocol.Chunk{Data: make([]byte, 50)}, 50); err != nil {
		t.Error(err)
	}
	if err := in.Put(protocol.Chunk{Offset: 50, Data: make([]byte, 1)}, 51); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}
