package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"testing"
)

// maxGarbage is how many bytes reading any packet may allocate, including the allocations of the
// test itself. That is enough for some errors, whose length does not depend on the length of the
// packet.
const maxGarbage = 64 << 10

// FuzzParseRequest parses arbitrary bytes. The values of a parsed request must be in range, and
// must be the same after the request is written and parsed again.
func FuzzParseRequest(f *testing.F) {
	for _, test := range requests {
		f.Add(test.packet[lengthSize:])
	}
	f.Add([]byte("\x07\x00\x00\x00\x01\x00\x00\x00\x01/\x80\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01b"))
	f.Fuzz(func(t *testing.T, body []byte) {
		parseAny(t, body)
		packet, ok := frame(t, body)
		if !ok {
			return
		}
		var q Request
		var err error
		frugal(t, packet, func() { q, err = ParseRequest(packet) })
		if err != nil {
			e, ok := err.(*Error)
			if !ok || len(e.Error()) > 2000 || q.text() != (Request{}).text() {
				t.Fatalf("%x: %s, %v", packet, q.text(), err)
			}
			if e.HasID && e.ID != binary.BigEndian.Uint32(packet[5:]) {
				t.Fatalf("%x: id %d", packet, e.ID)
			}
			return
		}
		_, _ = q.Flags.Check(), q.Flags.String()
		b := q.again(nil)
		again, err := ParseRequest(b)
		if err != nil || again.text() != q.text() || len(b) > len(packet) {
			t.Fatalf("%x became %x:\n%s, then\n%s, %v", packet, b, q.text(), again.text(), err)
		}
	})
}

// FuzzParseReply does the same for replies.
func FuzzParseReply(f *testing.F) {
	for _, test := range replies {
		f.Add(test.packet[lengthSize:])
	}
	f.Add([]byte("\x65\x00\x00\x00\x01\x00\x00\x00\x04"))
	f.Fuzz(func(t *testing.T, body []byte) {
		parseAny(t, body)
		packet, ok := frame(t, body)
		if !ok {
			return
		}
		var p Reply
		var err error
		frugal(t, packet, func() { p, err = ParseReply(packet) })
		if err != nil {
			if e, ok := err.(*Error); !ok || len(e.Error()) > 2000 {
				t.Fatalf("%x: %v", packet, err)
			}
			return
		}
		if err := p.Err(); err != nil && len(err.Error()) > 4*maxMessage {
			t.Fatalf("%x: %v", packet, err)
		}
		for e := range numExtensions {
			if (p.Type == TypeExtendedReply) != (e != 0) {
				continue
			}
			want, err := p.text(e)
			if err != nil {
				continue
			}
			b, err := p.again(nil, e)
			if err != nil {
				continue // the extension has no reply of its own
			}
			again, err := ParseReply(b)
			if err != nil {
				t.Fatalf("%x became %x: %v", packet, b, err)
			}
			if p.Type == TypeStatus { // the message may be truncated, and the language is omitted
				if again.Status != p.Status || len(again.Message) > maxMessage {
					t.Fatalf("%x became %x", packet, b)
				}
				continue
			}
			if got, err := again.text(e); err != nil || got != want || len(b) > len(packet) {
				t.Fatalf("%x became %x:\n%s, then\n%s, %v", packet, b, want, got, err)
			}
		}
	})
}

// frame makes a packet from its body, if that is possible.
func frame(t *testing.T, body []byte) (packet []byte, ok bool) {
	packet = resize(append(make([]byte, lengthSize), body...))
	n, err := PacketLength(packet)
	if ok = len(packet) >= HeaderSize && len(packet) <= MaxPacket; ok != (err == nil && n == len(packet)) {
		t.Fatalf("packet of %d bytes: %d, %v", len(packet), n, err)
	}
	return packet, ok
}

// frugal runs f, and checks that it allocates at most maxGarbage bytes.
func frugal(t *testing.T, packet []byte, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > maxGarbage {
		t.Fatalf("%x: %d bytes allocated", packet, n)
	}
}

// parseAny passes bytes to all functions that accept any bytes.
func parseAny(t *testing.T, b []byte) {
	n, err := PacketLength(b)
	if n < 0 || n > MaxPacket || n != 0 && n < HeaderSize || err != nil && n != 0 {
		t.Fatalf("%x: %d, %v", b, n, err)
	}
	if h, err := ParseHeader(b); err == nil && (h.Size != n || len(b) < HeaderSize) {
		t.Fatalf("%x: %+v", b, h)
	}
	if _, n, extra, err := ParseDataHeader(b); err == nil {
		h, _ := ParseHeader(b)
		if n < 0 || extra < 0 || DataHeaderSize+n+extra != h.Size || h.Type != TypeData {
			t.Fatalf("%x: %d bytes and %d", b, n, extra)
		}
	}
	parseAll(t, b)
}

// FuzzWire writes packets with any content, several to a buffer, and parses them. The parsed values
// must equal those that were written.
func FuzzWire(f *testing.F) {
	for i := range byte(30) {
		f.Add([]byte{i, 2 * i, 3 * i}, uint32(i), "a", "/b/c", int64(i)<<40, int64(1000), uint32(0xffffffff), []byte("some data"))
	}
	f.Add([]byte{200, 201, 202}, uint32(1<<32-1), "", "\x00\xff", int64(-1), int64(-1), uint32(0x80000000), []byte{})
	f.Fuzz(func(t *testing.T, kinds []byte, id uint32, s, u string, m, n int64, bits uint32, data []byte) {
		if len(data) > 1000 || len(kinds) > 20 {
			return
		}
		s, u = s[:min(len(s), MaxHandle)], u[:min(len(u), MaxPath)]
		a := attrsOf(bits, m, n)
		offset := func(v int64) int64 { return min(v&math.MaxInt64, maxOffset) }
		q := Request{
			ID: id, Version: bits, Flags: OpenFlags(bits), Attrs: a,
			Offset: offset(m), Length: n & (1<<32 - 1), ToOffset: offset(m ^ n), BlockSize: bits,
			Handle: []byte(s), ToHandle: []byte(s), Path: []byte(u), NewPath: []byte(s + u)[:min(len(s+u), MaxPath)],
			Target: []byte(u + s)[:min(len(u+s), MaxPath)], User: []byte(s), Algorithms: []byte(s),
			Data: data, Users: IDs(data[:len(data)/4*4]), Groups: IDs(data[:len(data)/8*4]),
		}
		if q.BlockSize < MinCheckBlock {
			q.BlockSize = 0
		}
		var b []byte
		var want []string
		for _, kind := range kinds {
			sample := requests[int(kind)%len(requests)].want
			r := q
			r.Type, r.Extension = sample.Type, sample.Extension
			at := len(b)
			b = r.again(b)
			r = only(r)
			want = append(want, r.text())
			if size, err := PacketLength(b[at:]); err != nil || at+size != len(b) {
				t.Fatalf("%s: %d bytes of %d, %v", r.text(), size, len(b)-at, err)
			}
		}
		for _, text := range want {
			size, _ := PacketLength(b)
			got, err := ParseRequest(b[:size])
			if err != nil || got.text() != text {
				t.Fatalf("want %s,\n got %s, %v", text, got.text(), err)
			}
			b = b[size:]
		}
		if len(b) > 0 {
			t.Fatalf("%d bytes are left", len(b))
		}

		b = AppendNames(nil, id)
		for i := range kinds {
			b = AppendEntry(b, 0, u[min(i, len(u)):], data, a)
		}
		p, err := ParseReply(b)
		if err != nil || p.ID != id || p.Names.Len() != len(kinds) {
			t.Fatalf("%+v, %v", p, err)
		}
		i := 0
		for e := range p.Names.All() {
			if string(e.Name) != u[min(i, len(u)):] || !bytes.Equal(e.Long, data) || e.Attrs != a {
				t.Fatalf("name %d: %+v", i, e)
			}
			i++
		}
		b = AppendData(AppendStatus(nil, id, Status(bits), s), id, data)
		size, _ := PacketLength(b)
		if p, err = ParseReply(b[:size]); err != nil || p.Status != Status(bits) || len(p.Message) == 0 && s != "" {
			t.Fatalf("%+v, %v", p, err)
		}
		if gotID, n, extra, err := ParseDataHeader(b[size:]); err != nil || gotID != id || n != len(data) || extra != 0 {
			t.Fatalf("id %d, %d bytes and %d, %v", gotID, n, extra, err)
		}
	})
}

// attrsOf makes attributes that fit their flags.
func attrsOf(bits uint32, m, n int64) (a Attrs) {
	if bits&1 != 0 {
		a.SetSize(m & (1<<63 - 1))
	}
	if bits&2 != 0 {
		a.SetOwner(uint32(m), uint32(n))
	}
	if bits&4 != 0 {
		a.SetMode(Mode(n >> 8))
	}
	if bits&8 != 0 {
		a.Flags |= AttrTimes
		a.Atime, a.Mtime = uint32(n>>16), uint32(m>>16)
	}
	return a
}

// only returns a copy of q that has only the fields of its type. The test lists these fields
// independently of the package: see [Request].
func only(q Request) Request {
	o := Request{Type: q.Type, Extension: q.Extension, ID: q.ID}
	handle := func() { o.Handle = q.Handle }
	path := func() { o.Path = q.Path }
	attrs := func() { o.Attrs = q.Attrs }
	offset := func() { o.Offset = q.Offset }
	length := func() { o.Length = q.Length }
	newPath := func() { o.NewPath = q.NewPath }
	flags := func() { o.Flags = q.Flags }
	data := func() { o.Data = q.Data }
	target := func() { o.Target = q.Target }
	to := func() { o.ToHandle, o.ToOffset = q.ToHandle, q.ToOffset }
	hash := func() { o.Algorithms, o.BlockSize = q.Algorithms, q.BlockSize }
	user := func() { o.User = q.User }
	ids := func() { o.Users, o.Groups = q.Users, q.Groups }
	version := func() { o.ID, o.Version = 0, q.Version }
	for _, f := range map[Type][]func(){
		TypeInit:     {version},
		TypeOpen:     {path, flags, attrs},
		TypeClose:    {handle},
		TypeRead:     {handle, offset, length},
		TypeWrite:    {handle, offset, data},
		TypeLstat:    {path},
		TypeFstat:    {handle},
		TypeSetstat:  {path, attrs},
		TypeFsetstat: {handle, attrs},
		TypeOpendir:  {path},
		TypeReaddir:  {handle},
		TypeRemove:   {path},
		TypeMkdir:    {path, attrs},
		TypeRmdir:    {path},
		TypeRealpath: {path},
		TypeStat:     {path},
		TypeRename:   {path, newPath},
		TypeReadlink: {path},
		TypeSymlink:  {path, target},
	}[q.Type] {
		f()
	}
	for _, f := range map[Extension][]func(){
		ExtPosixRename:     {path, newPath},
		ExtStatVFS:         {path},
		ExtFstatVFS:        {handle},
		ExtHardlink:        {path, newPath},
		ExtFsync:           {handle},
		ExtLsetstat:        {path, attrs},
		ExtExpandPath:      {path},
		ExtCopyData:        {handle, offset, length, to},
		ExtHomeDirectory:   {user},
		ExtUsersGroupsByID: {ids},
		ExtCheckFileHandle: {handle, offset, length, hash},
		ExtCheckFileName:   {path, offset, length, hash},
		ExtCheckFile:       {handle, offset, length, hash},
	}[q.Extension] {
		f()
	}
	return o
}
