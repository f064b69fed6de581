package fileio

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/haul-project/haul/tftp/internal/protocol"
)

// checkText checks that any part of a text file's translation is the same as in the whole
// translation.
func checkText(t *testing.T, text []byte, offsets ...int) {
	t.Helper()
	want := protocol.AppendNetascii(nil, text)
	f, err := OpenText(bytes.NewReader(text), nil)
	if err != nil || f.Size() != int64(len(want)) {
		t.Fatalf("size %d, %v, want %d", f.Size(), err, len(want))
	}
	for _, off := range offsets {
		for _, n := range []int{1, 7, 512, 5000, len(want) + 1} {
			b := make([]byte, n)
			got, err := f.ReadAt(b, int64(off))
			part := want[min(off, len(want)):min(off+n, len(want))]
			if !bytes.Equal(b[:got], part) || (err == io.EOF) != (got < n) {
				t.Fatalf("%d bytes at %d: got %d, %v, want %d", n, off, got, err, len(part))
			}
		}
	}
}

func TestTextFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{0, 1, textPiece - 1, textPiece, textPiece + 1, 5*textPiece + 77} {
		for _, alphabet := range []string{"x", "\r", "\n", "\r\nx\x00"} {
			text := make([]byte, size)
			for i := range text {
				text[i] = alphabet[rng.IntN(len(alphabet))]
			}
			offsets := []int{0, 1, textPiece, 2 * size, max(0, 2*size-1)}
			for range 20 {
				offsets = append(offsets, rng.IntN(2*size+1))
			}
			checkText(t, text, offsets...)
		}
	}
}

func FuzzTextFile(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, off int) {
		if off >= 0 && off < 1<<20 {
			checkText(t, bytes.Repeat(text, 1+1000/(1+len(text))), off)
		}
	})
}

// Errors of the file are returned.
func TestTextFileFails(t *testing.T) {
	broken := errors.New("broken")
	if _, err := OpenText(failingReader{broken}, nil); !errors.Is(err, broken) {
		t.Errorf("open: %v", err)
	}
	f := &Text{file: failingReader{broken}, starts: []int64{0, 10}, text: make([]byte, textPiece)}
	if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
}

type failingReader struct{ err error }

func (r failingReader) ReadAt([]byte, int64) (int, error) { return 0, r.err }
