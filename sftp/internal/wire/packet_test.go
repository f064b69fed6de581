package wire

import (
	"bytes"
	"testing"
)

// TestPacketLength reads packets from a buffer with several packets, the last of which is
// incomplete, for every number of bytes that may have arrived.
func TestPacketLength(t *testing.T) {
	packets := [][]byte{AppendInit(nil, 3), AppendRead(nil, 1, "h", 0, 100), AppendClose(nil, 2, "h")}
	b := bytes.Join(packets, nil)
	for come := range len(b) + 1 {
		left, n := b[:come], 0
		for {
			size, err := PacketLength(left)
			if err != nil {
				t.Fatal(err)
			}
			if size == 0 || size > len(left) {
				break
			}
			if !bytes.Equal(left[:size], packets[n]) {
				t.Errorf("packet %d of %d bytes is %x", n, come, left[:size])
			}
			left, n = left[size:], n+1
		}
		whole := 0
		for at := 0; whole < len(packets) && at+len(packets[whole]) <= come; whole++ {
			at += len(packets[whole])
		}
		if n != whole {
			t.Errorf("%d bytes: %d packets, want %d", come, n, whole)
		}
	}
}

// TestLongest tests the longest packet, and one that is longer by a byte.
func TestLongest(t *testing.T) {
	data := make([]byte, MaxPacket-WriteHeaderSize("h"))
	b := AppendWrite(nil, 1, "h", 0, data)
	if n, err := PacketLength(b); n != MaxPacket || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if q, err := ParseRequest(b); err != nil || len(q.Data) != len(data) {
		t.Errorf("%d bytes, %v", len(q.Data), err)
	}
	b = AppendWrite(nil, 1, "h", 0, append(data, 0))
	if n, err := PacketLength(b); n != 0 || err == nil {
		t.Errorf("one byte more: %d, %v", n, err)
	}
	// 256 KiB of data fit, even with the longest handle.
	b = AppendWrite(nil, 1, string(make([]byte, MaxHandle)), 0, make([]byte, 256<<10))
	if _, err := ParseRequest(b); err != nil {
		t.Error(err)
	}
}

// TestHeadersInPlace reads data into a buffer and then puts the header in front. The header must
// fit exactly and leave the surrounding bytes unchanged.
func TestHeadersInPlace(t *testing.T) {
	data := []byte("the file's bytes")
	fill := func(b []byte, at int) int { return copy(b[at:at+len(data)], data) }

	b := append(make([]byte, 0, 200), "before"...)
	at := len(b) + DataHeaderSize
	n := fill(b[:cap(b)], at)
	got := AppendDataHeader(b, 7, n)[:at+n]
	if want := AppendData([]byte("before"), 7, data); !bytes.Equal(got, want) || &got[0] != &b[0] {
		t.Errorf("DATA: got %q, want %q", got, want)
	}

	at = len(b) + WriteHeaderSize("handle")
	n = fill(b[:cap(b)], at)
	got = AppendWriteHeader(b, 7, "handle", 1<<33, n)[:at+n]
	if want := AppendWrite([]byte("before"), 7, "handle", 1<<33, data); !bytes.Equal(got, want) || &got[0] != &b[0] {
		t.Errorf("WRITE: got %q, want %q", got, want)
	}
}

func TestParseDataHeader(t *testing.T) {
	for _, test := range []struct {
		packet   string
		id       uint32
		n, extra int
		problem  string
	}{
		{packet: "\x00\x00\x00\x0d\x67\x00\x00\x00\x09\x00\x00\x00\x04data", id: 9, n: 4},
		// A client parses the header before it has read the data.
		{packet: "\x00\x00\x00\x0d\x67\x00\x00\x00\x09\x00\x00\x00\x04", id: 9, n: 4},
		{packet: "\x00\x00\x00\x09\x67\x00\x00\x00\x09\x00\x00\x00\x00", id: 9},
		{packet: "\x00\x00\x00\x0e\x67\x00\x00\x00\x09\x00\x00\x00\x04data\x01", id: 9, n: 4, extra: 1},
		{packet: "\x00\x00\x00\x0d\x67\x00\x00\x00\x09\x00\x00\x00\x05data", problem: "data: cut off: 5 bytes wanted, 4 left"},
		{packet: "\x00\x00\x00\x0d\x67\x00\x00\x00\x09\xff\xff\xff\xffdata", problem: "data: cut off: 4294967295 bytes wanted, 4 left"},
		{packet: "\x00\x00\x00\x0d\x67\x00\x00\x00\x09\x00\x00\x00", problem: "data: cut off: 4 bytes wanted, 3 left"},
		{packet: "\x00\x00\x00\x08\x67\x00\x00\x00\x09\x00\x00\x00\x00", problem: "data: cut off: 4 bytes wanted, 3 left"},
		{packet: "\x00\x00\x00\x0d\x66\x00\x00\x00\x09\x00\x00\x00\x04data", problem: "type: not DATA"},
	} {
		id, n, extra, err := ParseDataHeader([]byte(test.packet))
		problem := ""
		if err != nil {
			e := err.(*Error)
			problem = e.Field + ": " + e.Problem
			if !e.HasID || e.ID != 9 {
				t.Errorf("%q: %+v", test.packet, e)
			}
		}
		if id != test.id || n != test.n || extra != test.extra || problem != test.problem {
			t.Errorf("%q: id %d, %d bytes and %d, %v", test.packet, id, n, extra, err)
		}
	}
}

// TestViewsAreCapped appends to the slices of parsed fields. That must not change the packet.
func TestViewsAreCapped(t *testing.T) {
	b := AppendRename(nil, 1, "old", "new")
	was := bytes.Clone(b)
	q, err := ParseRequest(b)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(q.Path, "more"...)
	if !bytes.Equal(b, was) {
		t.Errorf("%q became %q", was, b)
	}
}

// TestLengthsDoNotOverflow uses the length 2^64 - 1, by which peers mean "all".
func TestLengthsDoNotOverflow(t *testing.T) {
	const all = 1<<64 - 1
	for _, b := range [][]byte{
		build(TypeExtended, 1, "copy-data", "h", uint64(maxOffset), uint64(all), "h", uint64(0)),
		build(TypeExtended, 1, "copy-data", "h", uint64(0), uint64(all), "h", uint64(maxOffset)),
		build(TypeExtended, 1, "check-file-name", "a", "md5", uint64(maxOffset), uint64(all), uint32(0)),
	} {
		q, err := ParseRequest(b)
		if err != nil || q.Length != 1<<32-1 || q.Offset+q.Length < 0 || q.ToOffset+q.Length < 0 {
			t.Errorf("%s, %v", q.text(), err)
		}
	}
	p := mustParseReply(t, build(TypeAttrs, 1, uint32(AttrSize), uint64(all)))
	if p.Attrs.Size != 1<<63-1 {
		t.Errorf("size %d", p.Attrs.Size)
	}
}
