package uploadrecord

import (
	"bytes"
	"testing"
)

// recordFile is the random part of a temporary file's name.
const recordFile = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Parse returns the record that AppendTo wrote, and accepts no other text.
func TestRecords(t *testing.T) {
	r := Record{Seq: 3, Whole: 1 << 40, Size: 1 << 41, Source: 0xfeed, Open: true, File: recordFile}
	b := r.AppendTo(nil)
	if len(b) >= Slot {
		t.Fatalf("a record of %d bytes", len(b))
	}
	if got, ok := Parse(b); !ok || got != r {
		t.Errorf("Parse = %+v, %v", got, ok)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if got, ok := Parse(bad); ok {
			t.Errorf("with byte %d changed it is %+v", i, got)
		}
		if got, ok := Parse(b[:i]); ok && got != r {
			t.Errorf("the first %d bytes are %+v", i, got)
		}
	}
	two := make([]byte, Slot)
	copy(two, Record{Seq: 4, Whole: 7, File: recordFile}.AppendTo(nil))
	two = append(two, b...)
	if got, ok := Newest(two); !ok || got.Whole != 7 {
		t.Errorf("of two, the newest is %+v, %v", got, ok)
	}
	two[3] ^= 1
	if got, ok := Newest(two); !ok || got != r {
		t.Errorf("of one that is cut, and one that is not, the newest is %+v, %v", got, ok)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(Record{Seq: 1, Whole: 2, Size: 3, Source: 4, File: recordFile}.AppendTo(nil))
	f.Add([]byte("haul-upload 2 seq=1 whole=-1 size=0 source=0 open=true file=a crc=0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := Parse(b)
		if !ok {
			return
		}
		if r.Whole < 0 || r.Size < 0 || !bytes.HasPrefix(append(bytes.Clone(b), '\n'), r.AppendTo(nil)) {
			t.Errorf("%q is taken for %+v", b, r)
		}
	})
}
