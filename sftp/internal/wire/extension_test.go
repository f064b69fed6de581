package wire

import "testing"

func TestExtensions(t *testing.T) {
	var s Extensions
	for e := Extension(1); e < numExtensions; e++ {
		if s.Has(e) || !s.With(e).Has(e) || s.With(e).Without(e) != s || !AllExtensions.Has(e) {
			t.Errorf("%v", e)
		}
		if extensionNamed([]byte(e.String())) != e {
			t.Errorf("%v is another", e)
		}
		s = s.With(e)
	}
	if s != AllExtensions || s.Has(0) || AllExtensions.Has(numExtensions) {
		t.Errorf("%b", s)
	}
	for _, name := range []string{"", "unknown extension", "fsync@openssh.com ", "FSYNC@openssh.com", "fsync", "check"} {
		if e := extensionNamed([]byte(name)); e != 0 {
			t.Errorf("%q is %v", name, e)
		}
	}
}

// TestKnown tests which announced extensions Pairs.Known returns.
func TestKnown(t *testing.T) {
	var s Extensions
	check := s.With(ExtCheckFileHandle).With(ExtCheckFileName).With(ExtCheckFile)
	for _, test := range []struct {
		pairs []Pair
		want  Extensions
	}{
		{nil, 0},
		{AllExtensions.Pairs(), AllExtensions},
		{AllExtensions.Without(ExtCheckFileName).Pairs(), AllExtensions}, // implied by check-file
		{s.With(ExtCheckFileName).Pairs(), s.With(ExtCheckFileName)},
		{[]Pair{{"statvfs@openssh.com", "1"}}, 0}, // all servers support version 2
		{[]Pair{{"statvfs@openssh.com", "2"}, {"newline", "\n"}, {"fsync@openssh.com", ""}}, s.With(ExtStatVFS)},
		{[]Pair{{"fsync@openssh.com", "2"}, {"fsync@openssh.com", "1"}}, s.With(ExtFsync)},
		{[]Pair{{"check-file", ""}}, check},
		{[]Pair{{"check-file-name", "md5,sha256"}}, s.With(ExtCheckFileName)},
		{[]Pair{{"unknown extension", "1"}, {"", ""}}, 0},
	} {
		p := mustParseReply(t, AppendVersion(nil, 3, test.pairs))
		if got := p.Pairs.Known(); got != test.want {
			t.Errorf("%q: %b, want %b", test.pairs, got, test.want)
		}
		i := 0
		for name, data := range p.Pairs.All() {
			if got := (Pair{string(name), string(data)}); got != test.pairs[i] {
				t.Errorf("pair %d is %q, want %q", i, got, test.pairs[i])
			}
			i++
		}
		if i != len(test.pairs) {
			t.Errorf("%d pairs of %d", i, len(test.pairs))
		}
	}
}

// TestCheckFileBytes compares the check-file requests, and both forms of the reply, byte for byte
// with the packets of the draft and of paramiko's SFTPFile.check.
func TestCheckFileBytes(t *testing.T) {
	rest := "\x00\x00\x00\x08md5,sha1" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x01\x00\x00\x00\x00" + "\x00\x00\x02\x00"
	for _, test := range []struct {
		packet []byte
		want   string
	}{
		{AppendCheckFileHandle(nil, 9, "h", "md5,sha1", 7, 1<<32, 512),
			"\x00\x00\x00\x3f\xc8\x00\x00\x00\x09\x00\x00\x00\x11check-file-handle\x00\x00\x00\x01h" + rest},
		{AppendCheckFileName(nil, 9, "/a", "md5,sha1", 7, 1<<32, 512),
			"\x00\x00\x00\x3e\xc8\x00\x00\x00\x09\x00\x00\x00\x0fcheck-file-name\x00\x00\x00\x02/a" + rest},
		{AppendCheckFile(nil, 9, "h", "md5,sha1", 7, 1<<32, 512),
			"\x00\x00\x00\x38\xc8\x00\x00\x00\x09\x00\x00\x00\x0acheck-file\x00\x00\x00\x01h" + rest},
		{AppendCheckFileReply(nil, 9, "md5", []byte("01")), "\x00\x00\x00\x0e\xc9\x00\x00\x00\x09\x00\x00\x00\x03md501"},
		{AppendOldCheckFileReply(nil, 9, "md5", []byte("01")),
			"\x00\x00\x00\x1c\xc9\x00\x00\x00\x09\x00\x00\x00\x0acheck-file\x00\x00\x00\x03md501"},
	} {
		if string(test.packet) != test.want {
			t.Errorf("%q, want %q", test.packet, test.want)
		}
	}
}

// TestCheckFileReplies tests both forms of the reply that servers send.
func TestCheckFileReplies(t *testing.T) {
	for _, packet := range [][]byte{
		build(TypeExtendedReply, 1, "md5", []byte("0123456789abcdef")),
		build(TypeExtendedReply, 1, "check-file", "md5", []byte("0123456789abcdef")),
	} {
		p := mustParseReply(t, packet)
		algorithm, hashes, err := p.CheckFile()
		if string(algorithm) != "md5" || string(hashes) != "0123456789abcdef" || err != nil {
			t.Errorf("%q: %s, %s, %v", packet, algorithm, hashes, err)
		}
	}
}

// TestStoppingEarly stops every iterator after its first element.
func TestStoppingEarly(t *testing.T) {
	n := 0
	names := mustParseReply(t, AppendEntry(AppendName(nil, 1, "a"), 0, "b", nil, Attrs{})).Names
	for range names.All() {
		n++
		break
	}
	for range mustParseReply(t, AppendVersion(nil, 3, AllExtensions.Pairs())).Pairs.All() {
		n++
		break
	}
	for range (IDs("\x00\x00\x00\x01\x00\x00\x00\x02")).All() {
		n++
		break
	}
	for range (Strings("\x00\x00\x00\x00\x00\x00\x00\x00")).All() {
		n++
		break
	}
	if n != 4 {
		t.Errorf("%d", n)
	}
}
