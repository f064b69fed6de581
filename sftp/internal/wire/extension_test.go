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
	for _, name := range []string{"", "unknown extension", "fsync@openssh.com ", "FSYNC@openssh.com", "fsync", checkFile} {
		if e := extensionNamed([]byte(name)); e != 0 {
			t.Errorf("%q is %v", name, e)
		}
	}
}

// TestKnown has what servers announce, and what of that can be used.
func TestKnown(t *testing.T) {
	var s Extensions
	check := s.With(ExtCheckFileHandle).With(ExtCheckFileName)
	for _, test := range []struct {
		pairs []Pair
		want  Extensions
	}{
		{nil, 0},
		{AllExtensions.Pairs(), AllExtensions},
		{AllExtensions.Without(ExtCheckFileName).Pairs(), AllExtensions.Without(ExtCheckFileName)},
		{[]Pair{{"statvfs@openssh.com", "1"}}, 0}, // 2 is what everyone speaks
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

// TestCheckFileReplies has the two forms that servers send.
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

// TestStoppingEarly leaves every iterator after its first.
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
