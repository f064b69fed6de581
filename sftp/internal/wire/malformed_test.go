package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// badly parses a malformed packet, and returns the error. The result ok is false if parsing
// succeeds.
func badly(b []byte, reply bool) (e *Error, ok bool) {
	var err error
	if reply {
		_, err = ParseReply(b)
	} else {
		_, err = ParseRequest(b)
	}
	ok = errors.As(err, &e)
	return e, ok
}

// TestTruncated truncates every packet after each of its bytes, once with the original length field
// and once with a corrected one.
func TestTruncated(t *testing.T) {
	for _, test := range requests {
		for n := range len(test.packet) {
			cut := bytes.Clone(test.packet[:n])
			if e, ok := badly(cut, false); !ok || e.Status != BadMessage {
				t.Errorf("%.100s, %d bytes: %v", test.want.text(), n, e)
			}
			if size, err := PacketLength(cut); err != nil || n >= lengthSize && size != len(test.packet) || n < lengthSize && size != 0 {
				t.Errorf("%.100s, %d bytes: %d, %v", test.want.text(), n, size, err)
			}
			if n < lengthSize {
				continue
			}
			e, ok := badly(resize(cut), false)
			if !ok || e.Status != BadMessage || e.Error() == "" {
				t.Errorf("%.100s, truly %d bytes: %v", test.want.text(), n, e)
				continue
			}
			if n >= HeaderSize && (e.Type != test.want.Type || e.HasID != (e.Type != TypeInit) || e.ID != test.want.ID || e.Field == "packet length") {
				t.Errorf("%.100s, truly %d bytes: %+v", test.want.text(), n, e)
			}
			if _, err := PacketLength(cut); (err == nil) != (n >= HeaderSize) {
				t.Errorf("%.100s, truly %d bytes: %v", test.want.text(), n, err)
			}
		}
	}
	for _, test := range replies {
		for n := range len(test.packet) {
			cut := bytes.Clone(test.packet[:n])
			if e, ok := badly(cut, true); !ok {
				t.Errorf("%.100s, %d bytes: %v", test.want, n, e)
			}
			if n < lengthSize {
				continue
			}
			p, err := ParseReply(resize(cut))
			if err == nil {
				_, err = p.again(nil, test.extension)
			}
			if fine := endsEarly(test.packet, n); (err == nil) != fine {
				t.Errorf("%.100s, truly %d bytes: %v", test.want, n, err)
			}
		}
	}
}

// endsEarly reports whether a reply that is truncated after n bytes is still valid: a STATUS
// without a message or a language, a VERSION after any of its pairs, or hashes, whose length is not
// known here.
func endsEarly(packet []byte, n int) bool {
	if n < HeaderSize {
		return false
	}
	r := reader{b: packet[HeaderSize:]}
	rest := len(packet) - n
	switch Type(packet[lengthSize]) {
	case TypeStatus:
		r.uint32("")
		before := len(r.b)
		r.bytes("", MaxPacket)
		return rest == before || rest == len(r.b)
	case TypeVersion:
		for len(r.b) > rest {
			r.bytes("", MaxPacket)
			r.bytes("", MaxPacket)
		}
		return len(r.b) == rest
	case TypeExtendedReply:
		algorithm := string(r.bytes("", MaxPacket))
		if algorithm == "check-file" {
			algorithm = string(r.bytes("", MaxPacket))
		}
		return algorithm == "sha1" && rest == 1
	}
	return false
}

// TestTrailing appends bytes to every packet. The bytes must be ignored, unless the packet ends
// with a list of any length.
func TestTrailing(t *testing.T) {
	for _, test := range requests {
		q, err := ParseRequest(resize(append(bytes.Clone(test.packet), "\xff\xff\xff\xffmore"...)))
		if err != nil || q.text() != test.want.text() {
			t.Errorf("%.100s: got %.100s, %v", test.want.text(), q.text(), err)
		}
		if e, ok := badly(append(bytes.Clone(test.packet), 0), false); !ok || e.Field != "packet length" {
			t.Errorf("%.100s: a byte of the next packet: %v", test.want.text(), e)
		}
	}
	for _, test := range replies {
		p, err := ParseReply(resize(append(bytes.Clone(test.packet), "\xff\xff\xff\xffmore"...)))
		if p.Type == TypeVersion || err != nil {
			if e, ok := err.(*Error); !ok || e.Type != TypeVersion || e.HasID || e.Field != "extension name" {
				t.Errorf("%s: %v", test.want, err)
			}
			continue
		}
		if got, err := p.text(test.extension); test.extension < ExtCheckFileHandle && (err != nil || got != test.want) {
			t.Errorf("want %s,\n got %s, %v", test.want, got, err)
		}
	}
}

// TestLies overwrites every four consecutive bytes of each packet with huge numbers. Parsing must
// return an error or a packet, and must not take much memory or time.
func TestLies(t *testing.T) {
	var packets [][]byte
	for _, test := range requests {
		packets = append(packets, test.packet)
	}
	for _, test := range replies {
		packets = append(packets, test.packet)
	}
	for _, packet := range packets {
		if len(packet) > 1000 {
			continue // long paths are not a separate case
		}
		for at := lengthSize; at+4 <= len(packet); at++ {
			for _, lie := range []uint32{1<<32 - 1, 1 << 31, 1<<31 - 1, 1 << 24, 300, 13, 1, 0} {
				b := bytes.Clone(packet)
				binary.BigEndian.PutUint32(b[at:], lie)
				parseAll(t, b)
			}
		}
	}
}

// parseAll parses a packet with all functions, including all of its content.
func parseAll(t *testing.T, b []byte) {
	t.Helper()
	if _, _, _, err := ParseDataHeader(b); err != nil && err.Error() == "" {
		t.Errorf("%x: an error without words", b)
	}
	if q, err := ParseRequest(b); err == nil {
		if q.Offset < 0 || q.Length < 0 || q.ToOffset < 0 || q.Attrs.Size < 0 ||
			q.Offset+q.Length < 0 || q.ToOffset+q.Length < 0 || q.Offset+int64(len(q.Data)) < 0 ||
			len(q.Handle) > MaxHandle || len(q.ToHandle) > MaxHandle || len(q.Path) > MaxPath || len(q.NewPath) > MaxPath {
			t.Errorf("%x: out of range: %s", b, q.text())
		}
	} else if e, ok := err.(*Error); !ok || e.Status != BadMessage && e.Status != Unsupported || e.Problem == "" {
		t.Errorf("%x: %v", b, err)
	}
	p, err := ParseReply(b)
	if err != nil {
		if e, ok := err.(*Error); !ok || e.Problem == "" {
			t.Errorf("%x: %v", b, err)
		}
		return
	}
	n := 0
	for e := range p.Names.All() {
		if n++; e.Attrs.Size < 0 {
			t.Errorf("%x: size %d", b, e.Attrs.Size)
		}
	}
	if n != p.Names.Len() {
		t.Errorf("%x: %d names of %d", b, n, p.Names.Len())
	}
	p.Pairs.Known()
	_, _ = p.StatVFS()
	_, _ = p.Limits()
	_, _, _ = p.CheckFile()
	if users, groups, err := p.UsersGroups(); err == nil {
		for _, s := range [...]Strings{users, groups} {
			n := 0
			for one := range s.All() {
				n += 4 + len(one)
			}
			if n != len(s) {
				t.Errorf("%x: %d bytes of names of %d", b, n, len(s))
			}
		}
	}
}

// TestErrors checks the descriptions of invalid packets.
func TestErrors(t *testing.T) {
	long := strings.Repeat("x", MaxPath+1)
	request := func(kind Type, body ...any) []byte { return build(kind, 7, body...) }
	for _, test := range []struct {
		packet []byte
		status Status
		want   string
	}{
		{request(TypeVersion), Unsupported, "SFTP packet VERSION: type: not a request"},
		{request(TypeStatus), Unsupported, "SFTP packet STATUS with id 7: type: not a request"},
		{request(99), Unsupported, "SFTP packet type 99 with id 7: type: not a request"},
		{request(0), Unsupported, "SFTP packet with id 7: type: not a request"},
		{request(21, "a", "b"), Unsupported, "SFTP packet type 21 with id 7: type: not a request"},
		{request(TypeExtended, "flock@example.com\x1b", "h"), Unsupported,
			`SFTP packet EXTENDED with id 7: extension: "flock@example.com\x1b" is not known`},
		{request(TypeExtended), BadMessage, "SFTP packet EXTENDED with id 7: extension: cut off: 4 bytes wanted, 0 left"},
		{request(TypeExtended, "fsync@openssh.com"), BadMessage,
			"SFTP packet EXTENDED fsync@openssh.com with id 7: handle: cut off: 4 bytes wanted, 0 left"},
		{request(TypeStat, long), BadMessage, "SFTP packet STAT with id 7: path: 4097 bytes, and at most 4096 are allowed"},
		{request(TypeRename, "a", long), BadMessage, "SFTP packet RENAME with id 7: new path: 4097 bytes, and at most 4096 are allowed"},
		{request(TypeClose, long[:MaxHandle+1]), BadMessage, "SFTP packet CLOSE with id 7: handle: 257 bytes, and at most 256 are allowed"},
		{request(TypeClose, uint32(4), uint16(1)), BadMessage, "SFTP packet CLOSE with id 7: handle: cut off: 4 bytes wanted, 2 left"},
		{request(TypeClose, uint32(1<<32-1)), BadMessage, "SFTP packet CLOSE with id 7: handle: 4294967295 bytes, and at most 256 are allowed"},
		{request(TypeRead, "h", uint64(maxOffset+1), uint32(1)), BadMessage,
			"SFTP packet READ with id 7: offset: 9223372032559808513 is beyond any file's end"},
		{request(TypeWrite, "h", uint64(1<<64-1), "x"), BadMessage,
			"SFTP packet WRITE with id 7: offset: 18446744073709551615 is beyond any file's end"},
		{request(TypeWrite, "h", uint64(0), uint32(5), uint32(0)), BadMessage,
			"SFTP packet WRITE with id 7: data: cut off: 5 bytes wanted, 4 left"},
		{request(TypeSetstat, "a", uint32(AttrExtended), uint32(1<<32-1)), BadMessage,
			"SFTP packet SETSTAT with id 7: extended attributes: 4294967295 of them cannot be in 0 bytes"},
		{request(TypeSetstat, "a", uint32(AttrExtended), uint32(2), "", "", uint32(0)), BadMessage,
			"SFTP packet SETSTAT with id 7: extended attributes: 2 of them cannot be in 12 bytes"},
		{request(TypeSetstat, "a", uint32(AttrExtended), uint32(MaxPairs+1), long), BadMessage,
			"SFTP packet SETSTAT with id 7: extended attributes: 257, and at most 256 are allowed"},
		{request(TypeMkdir, "a", uint32(AttrTimes), uint32(1)), BadMessage,
			"SFTP packet MKDIR with id 7: attribute mtime: cut off: 4 bytes wanted, 0 left"},
		{request(TypeExtended, "users-groups-by-id@openssh.com", "12345", ""), BadMessage,
			"SFTP packet EXTENDED users-groups-by-id@openssh.com with id 7: users: 5 bytes, which are no whole number of ids"},
		{request(TypeExtended, "check-file-name", "a", "md5", uint64(0), uint64(0), uint32(255)), BadMessage,
			"SFTP packet EXTENDED check-file-name with id 7: block size: 255, and at least 256 are wanted"},
		{request(TypeExtended, "check-file-name", "a", long[:maxAlgorithms+1]), BadMessage,
			"SFTP packet EXTENDED check-file-name with id 7: hash algorithms: 1025 bytes, and at most 1024 are allowed"},
		{[]byte("\x00\x00\x00\x04\x03\x00\x00\x00"), BadMessage, "SFTP packet: packet length: 4 is not in 5 to 263164"},
		{[]byte("\x00\x04\x03\xfd\x03"), BadMessage, "SFTP packet: packet length: 263165 is not in 5 to 263164"},
		{[]byte("\xff\xff\xff\xff"), BadMessage, "SFTP packet: packet length: 4294967295 is not in 5 to 263164"},
		{[]byte("\x00\x00"), BadMessage, "SFTP packet: header: cut off: 9 bytes wanted, 2 left"},
		{append(request(TypeExtended, "limits@openssh.com"), 0), BadMessage, "SFTP packet EXTENDED with id 7: packet length: 31 bytes, in 32"},
	} {
		e, ok := badly(test.packet, false)
		if !ok || e.Error() != test.want || e.Status != test.status || e.HasID && e.ID != 7 {
			t.Errorf("%.100q:\nwant %s,\n got %v", test.packet, test.want, e)
		}
	}
	for _, test := range []struct {
		packet []byte
		want   string
	}{
		{request(TypeRead, "h", uint64(0), uint32(1)), "SFTP packet READ with id 7: type: not a reply"},
		{request(TypeName, uint32(1<<32-1)), "SFTP packet NAME with id 7: names: 4294967295 of them cannot be in 0 bytes"},
		{request(TypeName, uint32(2), "a", "b", uint32(0)), "SFTP packet NAME with id 7: names: 2 of them cannot be in 14 bytes"},
		{request(TypeName, uint32(1), "a", uint32(9), uint32(0)), "SFTP packet NAME with id 7: long name: cut off: 9 bytes wanted, 4 left"},
		{request(TypeHandle, long[:MaxHandle+1]), "SFTP packet HANDLE with id 7: handle: 257 bytes, and at most 256 are allowed"},
		{request(TypeStatus, uint32(4), uint32(9)), "SFTP packet STATUS with id 7: message: cut off: 9 bytes wanted, 0 left"},
		{request(TypeData), "SFTP packet DATA with id 7: data: cut off: 4 bytes wanted, 0 left"},
		{request(TypeData, uint32(9), uint16(0)), "SFTP packet DATA with id 7: data: cut off: 9 bytes wanted, 2 left"},
		{request(TypeVersion, "a"), "SFTP packet VERSION: extension data: cut off: 4 bytes wanted, 0 left"},
		{request(TypeVersion, make([]byte, 8*(MaxPairs+1))), "SFTP packet VERSION: extensions: more than 256"},
	} {
		if e, ok := badly(test.packet, true); !ok || e.Error() != test.want {
			t.Errorf("%.100q:\nwant %s,\n got %v", test.packet, test.want, e)
		}
	}
	extended := func(body ...any) *Reply {
		p := mustParseReply(t, build(TypeExtendedReply, 7, body...))
		return &p
	}
	for want, f := range map[string]func() error{
		"SFTP packet EXTENDED_REPLY statvfs@openssh.com with id 7: file system's numbers: cut off: 8 bytes wanted, 4 left": func() error {
			_, err := extended(uint64(1), uint32(1)).StatVFS()
			return err
		},
		"SFTP packet EXTENDED_REPLY limits@openssh.com with id 7: open handles: cut off: 8 bytes wanted, 0 left": func() error {
			_, err := extended(uint64(1), uint64(2), uint64(3)).Limits()
			return err
		},
		"SFTP packet EXTENDED_REPLY users-groups-by-id@openssh.com with id 7: users: name cut off: 4 bytes wanted, 1 left": func() error {
			_, _, err := extended("\x00\x00\x00\x00x", "").UsersGroups()
			return err
		},
		"SFTP packet EXTENDED_REPLY with id 7: hashes: none": func() error {
			_, _, err := extended("check-file", "md5").CheckFile()
			return err
		},
		"SFTP packet STATUS limits@openssh.com with id 7: type: not an EXTENDED_REPLY": func() error {
			_, err := (&Reply{Type: TypeStatus, ID: 7}).Limits()
			return err
		},
	} {
		if err := f(); err == nil || err.Error() != want {
			t.Errorf("want %s,\n got %v", want, err)
		}
	}
}

// build makes a packet from numbers, strings, and raw bytes.
func build(kind Type, id uint32, body ...any) []byte {
	b, at := begin(nil, kind, id)
	for _, v := range body {
		switch v := v.(type) {
		case string:
			b = appendString(b, v)
		case []byte:
			b = append(b, v...)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, v)
		case uint32:
			b = appendUint32(b, v)
		case uint64:
			b = appendUint64(b, v)
		}
	}
	return end(b, at)
}
