package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/tftp/transfer"
)

func TestParseRequest(t *testing.T) {
	long := strings.Repeat("x", transfer.MaxRequest-len("\x00\x01\x00octet\x00"))
	for packet, want := range map[string]transfer.Request{
		"\x00\x01f\x00octet\x00":    {Name: "f"},
		"\x00\x02f\x00OCTET\x00":    {Name: "f", Write: true},
		"\x00\x02f\x00NetASCII\x00": {Name: "f", Write: true, Mode: transfer.Netascii},
		// The store judges the name.
		"\x00\x01/../\x1b[2J\xff\x00octet\x00":               {Name: "/../\x1b[2J\xff"},
		"\x00\x01f\x00octet\x00junk":                         {Name: "f"},
		"\x00\x01f\x00octet\x00\x00\x00\x00":                 {Name: "f"},
		"\x00\x01" + long + "\x00octet\x00":                  {Name: long},
		"\x00\x01f\x00octet\x00BlkSize\x001024\x00":          {Name: "f", Offer: transfer.Options{BlockSize: 1024}},
		"\x00\x01f\x00octet\x00blksize\x000001024\x00":       {Name: "f", Offer: transfer.Options{BlockSize: 1024}},
		"\x00\x01f\x00octet\x00blksize\x001024":              {Name: "f"},
		"\x00\x01f\x00octet\x00x\x00\x00TSIZE\x000\x00":      {Name: "f", Offer: transfer.Options{HasSize: true}},
		"\x00\x01f\x00octet\x00x\x00tsize\x000\x00":          {Name: "f"}, // "tsize" is the value of x
		"\x00\x01f\x00octet\x00tsize\x005\x00tsize\x006\x00": {Name: "f", Offer: transfer.Options{HasSize: true, Size: 5}},
		"\x00\x01f\x00octet\x00rollover\x000\x00":            {Name: "f", Offer: transfer.Options{Rollover: transfer.RolloverZero}},
		"\x00\x01f\x00octet\x00rollover\x001\x00":            {Name: "f", Offer: transfer.Options{Rollover: transfer.RolloverOne}},
	} {
		if got, err := ParseRequest([]byte(packet)); err != nil || got != want {
			t.Errorf("%.60q: got %+v, %v", packet, got, err)
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	long := strings.Repeat("x", transfer.MaxRequest)
	for _, packet := range []string{
		"", "\x00", "\x01", "\x00\x01", "\x00\x01\x00", "\x00\x01f", "\x00\x01f\x00", "\x00\x01f\x00octet",
		"\x00\x01\x00octet\x00", "\x00\x01f\x00\x00", "\x00\x01f\x00mail\x00", "\x00\x01f\x00octets\x00", "\x00\x01f\x00oct\x00",
		"\x00\x00f\x00octet\x00", "\x00\x03f\x00octet\x00", "\x00\x06f\x00octet\x00", "\x01\x00f\x00octet\x00", "\x00\x07f\x00octet\x00",
		"\x00\x01" + long + "\x00octet\x00",
		"\x00\x01f\x00octet\x00blksize\x00512\x00" + long,
	} {
		q, err := ParseRequest([]byte(packet))
		var e *transfer.Error
		if !errors.As(err, &e) || e.Code != transfer.IllegalOperation || e.Remote || q != (transfer.Request{}) {
			t.Errorf("%.60q: got %+v, %v", packet, q, err)
		}
	}
}

// TestOptionRanges checks the range of each option in requests, where a value outside the range is
// ignored, and in OACKs, where it is an error.
func TestOptionRanges(t *testing.T) {
	tests := []struct {
		name      string
		good, bad []string
	}{
		{optBlockSize, []string{"8", "512", "65464"}, []string{"7", "0", "65465", "65536", "131080"}},
		{optBlockSize2, []string{"8", "1000", "65464"}, []string{"7", "0", "65465"}},
		{optWindow, []string{"1", "65535"}, []string{"0", "65536", "65537"}},
		{optTimeout, []string{"1", "255"}, []string{"0", "256"}},
		{optMicroTimeout, []string{"10000", "255000000"}, []string{"0", "9999", "255000001"}},
		{optSize, []string{"0", "4294967296", "9223372036854775807", "0000000000000000001"}, []string{"9223372036854775808", "9999999999999999999"}},
		{optRollover, []string{"0", "1"}, []string{"2"}},
	}
	for _, test := range tests {
		never := []string{
			"", "-1", "+1", " 1", "1 ", "1.5", "0x10", "1e3", "enable", "１", "18446744073709551617", "18446744073709551616",
			"99999999999999999999999999999999999999", "00000000000000000001", "\xff", "1\n",
		}
		for i, value := range append(append(test.good, test.bad...), never...) {
			good := i < len(test.good)
			for _, name := range []string{test.name, strings.ToUpper(test.name), strings.ToUpper(test.name[:1]) + test.name[1:]} {
				o := parseOffer([]byte(name+"\x00"+value+"\x00"), 0)
				if isZero(o) == good || o.Check() != nil {
					t.Errorf("offer of %s %q: got %+v", name, value, o)
				}
				// Later options are accepted nevertheless.
				o = parseOffer([]byte(name+"\x00"+value+"\x00x\x00y\x00"+test.name+"\x00"+test.good[0]+"\x00"), 0)
				if isZero(o) {
					t.Errorf("%s %q hides what follows it", name, value)
				}
				ack := "\x00\x06" + name + "\x00" + value + "\x00"
				if _, err := parseOptionAck([]byte(ack)); (err == nil) != good {
					t.Errorf("OACK of %s %q: %v", name, value, err)
				}
				if _, err := parseOptionAck([]byte(ack + name + "\x00" + value + "\x00")); err == nil {
					t.Errorf("OACK of %s %q, twice, is accepted", name, value)
				}
			}
		}
	}
	for _, ack := range []string{"\x00\x06blksize", "\x00\x06blksize\x00", "\x00\x06blksize\x00512", "\x00\x06\x00\x00", "\x00\x06x\x001\x00", "\x00\x06blksize\x00512\x00x"} {
		if o, err := parseOptionAck([]byte(ack)); err == nil {
			t.Errorf("OACK %q is read as %+v", ack, o)
		}
	}
}

func TestConfirmedBy(t *testing.T) {
	asked := transfer.Options{BlockSize: 1024, Window: 8, Timeout: 5 * time.Second, MicroTimeout: time.Second, Rollover: transfer.RolloverOne, HasSize: true, Size: 100}
	tests := []struct {
		asked, ack  transfer.Options
		read, write bool // whether ack is valid for a read, and for a write
	}{
		{transfer.Options{}, transfer.Options{}, true, true},
		{asked, transfer.Options{}, true, true},
		{asked, asked, true, true},
		{asked, transfer.Options{BlockSize: 8, Window: 1}, true, true},
		{asked, transfer.Options{BlockSize: 1025}, false, false},
		{asked, transfer.Options{Window: 9}, false, false},
		{asked, transfer.Options{Timeout: 4 * time.Second}, false, false},
		{asked, transfer.Options{MicroTimeout: time.Second + time.Microsecond}, false, false},
		{asked, transfer.Options{Rollover: transfer.RolloverZero}, false, false},
		{asked, transfer.Options{HasSize: true, Size: 101}, true, false},
		{transfer.Options{}, transfer.Options{BlockSize: 512}, false, false},
		{transfer.Options{}, transfer.Options{Window: 1}, false, false},
		{transfer.Options{}, transfer.Options{Timeout: time.Second}, false, false},
		{transfer.Options{}, transfer.Options{MicroTimeout: time.Second}, false, false},
		{transfer.Options{}, transfer.Options{Rollover: transfer.RolloverZero}, false, false},
		{transfer.Options{}, transfer.Options{HasSize: true}, false, false},
	}
	for _, test := range tests {
		for _, write := range []bool{false, true} {
			want := test.read
			if write {
				want = test.write
			}
			if err := confirmedBy(test.asked, test.ack, write); (err == nil) != want {
				t.Errorf("asked %+v, confirmed %+v, write %v: %v", test.asked, test.ack, write, err)
			}
		}
	}
}

func TestAgree(t *testing.T) {
	all := transfer.Options{BlockSize: 65464, Window: 65535, Timeout: 9 * time.Second, MicroTimeout: 20 * time.Millisecond, Rollover: transfer.RolloverOne, HasSize: true, Size: 7}
	tests := []struct {
		name   string
		limits transfer.Limits
		q      transfer.Request
		size   int64
		want   transfer.Options
	}{
		{"nothing", transfer.Limits{}, transfer.Request{}, 10, transfer.Options{}},
		{"nothing, with limits", transfer.Limits{BlockSize: 1428, Window: 4, MinTimeout: time.Second, MaxTimeout: time.Second}, transfer.Request{}, 10, transfer.Options{}},
		{"all", transfer.Limits{}, transfer.Request{Offer: all}, 10, transfer.Options{BlockSize: 65464, Window: safeWindow, Timeout: 9 * time.Second, MicroTimeout: 20 * time.Millisecond, Rollover: transfer.RolloverOne, HasSize: true, Size: 10}},
		{"all, limited", transfer.Limits{BlockSize: 1428, Window: 4, MinTimeout: time.Second, MaxTimeout: 8 * time.Second}, transfer.Request{Offer: all}, 10, transfer.Options{BlockSize: 1428, Window: 4, Rollover: transfer.RolloverOne, HasSize: true, Size: 10}},
		{"less than the limits", transfer.Limits{BlockSize: 1428, Window: 4}, transfer.Request{Offer: transfer.Options{BlockSize: 8, Window: 1}}, 10, transfer.Options{BlockSize: 8, Window: 1}},
		{"a limit below the range", transfer.Limits{BlockSize: 1}, transfer.Request{Offer: transfer.Options{BlockSize: 512}}, 10, transfer.Options{BlockSize: 8}},
		{"netascii", transfer.Limits{}, transfer.Request{Mode: transfer.Netascii, Offer: transfer.Options{Window: 64}}, 10, transfer.Options{Window: 8}},
		{"an empty file", transfer.Limits{}, transfer.Request{Offer: transfer.Options{HasSize: true}}, 0, transfer.Options{}},
		{"a file of unknown size", transfer.Limits{}, transfer.Request{Offer: transfer.Options{HasSize: true, Size: 5}}, -1, transfer.Options{}},
		{"a write", transfer.Limits{}, transfer.Request{Write: true, Offer: transfer.Options{HasSize: true, Size: 5}}, -1, transfer.Options{HasSize: true, Size: 5}},
		{"a write of nothing", transfer.Limits{}, transfer.Request{Write: true, Offer: transfer.Options{HasSize: true}}, -1, transfer.Options{HasSize: true}},
	}
	for _, test := range tests {
		if got := Agree(test.limits, test.q, test.size); got != test.want {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

func TestErrors(t *testing.T) {
	for packet, want := range map[string]transfer.Error{
		"\x00\x05":                         {},
		"\x00\x05\x00":                     {},
		"\x00\x05\x00\x01":                 {Code: transfer.FileNotFound},
		"\x00\x05\x00\x01\x00":             {Code: transfer.FileNotFound},
		"\x00\x05\x00\x01gone":             {Code: transfer.FileNotFound, Message: "gone"},
		"\x00\x05\x00\x01gone\x00more\x00": {Code: transfer.FileNotFound, Message: "gone"},
		"\x00\x05\xff\xffx\x00":            {Code: 65535, Message: "x"},
		"\x00\x05\x00\x00\x1b]0;owned\x07\r\nlog: fake\x7f\x9b\xff\x00":  {Message: "?]0;owned???log: fake???"},
		"\x00\x05\x00\x00caf\u00e9 \u202egnp.exe\x00":                    {Message: "caf? ?gnp.exe"},
		"\x00\x05\x00\x00" + strings.Repeat("x", 5000) + "\x00":          {Message: strings.Repeat("x", maxMessage)},
		"\x00\x05\x00\x00" + strings.Repeat("x", maxMessage-1) + "é\x00": {Message: strings.Repeat("x", maxMessage-1) + "?"},
	} {
		want.Remote = true
		got := parseError([]byte(packet))
		if *got != want {
			t.Errorf("%.40q: got %+v", packet, got)
		}
		if s := got.Error(); s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%.40q: harmful text %q", packet, s)
		}
		again := AppendError(nil, got.Code, got.Message)
		if p := parseError(again); *p != want || len(again) > transfer.HeaderSize+maxMessage+1 {
			t.Errorf("%.40q: sent again as %q", packet, again)
		}
	}
	if b := AppendError(nil, transfer.DiskFull, "a\x00b\n"); string(b) != "\x00\x05\x00\x03a?b?\x00" {
		t.Errorf("got %q", b)
	}
}

// TestNonsense passes to each machine, in each of its phases, packets that are invalid in that
// phase. The machine must count them and continue, without an answer.
func TestNonsense(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	o := transfer.Options{BlockSize: 8, Window: 2}
	everywhere := []string{"", "\x00", "\x04", "\x00\x00", "\x00\x04", "\x00\x04\x00", "\x00\x03", "\x00\x03\x00", "\x00\x07\x00\x01", "\xff\xff\xff\xff",
		"\x01\x04\x00\x00", "\x00\x01f\x00octet\x00", "\x00\x02f\x00octet\x00", strings.Repeat("\x00", 70_000)}
	senders := map[string]struct {
		begin    func(s *Sender)
		nonsense []string
	}{
		"asks":   {func(s *Sender) { s.Request(now, transfer.Request{Name: "f", Offer: o}, 100) }, []string{"\x00\x04\x00\x01", "\x00\x03\x00\x01"}},
		"offers": {func(s *Sender) { s.Answer(now, o, 100) }, []string{"\x00\x04\x00\x01", "\x00\x04\xff\xff", "\x00\x03\x00\x01", "\x00\x06blksize\x008\x00"}},
		"sends": {func(s *Sender) {
			s.Answer(now, o, 100)
			s.Handle(now, []byte{0, 4, 0, 0})
			sendAll(s, now)
			s.Handle(now, []byte{0, 4, 0, 2})
		}, []string{"\x00\x04\x00\x00", "\x00\x04\x00\x01", "\x00\x04\x00\x05", "\x00\x04\xff\xff", "\x00\x03\x00\x03", "\x00\x06blksize\x008\x00"}},
	}
	for name, test := range senders {
		var s Sender
		test.begin(&s)
		s.AppendReply(now, nil)
		sendAll(&s, now)
		deadline := s.Deadline()
		for _, packet := range append(test.nonsense, everywhere...) {
			before := s.Stats().Strays
			s.Handle(now.Add(time.Millisecond), []byte(packet))
			if done, err := s.Done(); done || s.Stats().Strays != before+1 || len(s.AppendReply(now, nil)) > 0 || sendAll(&s, now) > 0 || s.Deadline() != deadline {
				t.Errorf("Sender %s: %.40q: done %v, %v, deadline %v, %+v", name, packet, done, err, s.Deadline(), s.Stats())
			}
		}
	}
	receivers := map[string]struct {
		begin    func(r *Receiver)
		nonsense []string
	}{
		"asks":    {func(r *Receiver) { r.Request(now, transfer.Request{Name: "f", Offer: o}) }, []string{"\x00\x04\x00\x00", "\x00\x03\x00\x00", "\x00\x03\x00\x0212345678"}},
		"answers": {func(r *Receiver) { r.Answer(now, transfer.Octet, o) }, []string{"\x00\x04\x00\x00", "\x00\x03\x00\x0012345678", "\x00\x03\x00\x0312345678", "\x00\x03\xff\xff12345678", "\x00\x06blksize\x008\x00"}},
		"dallies": {func(r *Receiver) {
			r.Answer(now, transfer.Octet, o)
			r.AppendReply(now, nil)
			r.Handle(now, []byte("\x00\x03\x00\x01x"))
			r.Stored(now)
		}, []string{"\x00\x04\x00\x00", "\x00\x03\x00\x02x", "\x00\x03\x00\x0312345678", "\x00\x03\xff\xff12345678", "\x00\x06blksize\x008\x00"}},
	}
	for name, test := range receivers {
		var r Receiver
		test.begin(&r)
		r.AppendReply(now, nil)
		deadline := r.Deadline()
		was, _ := r.Done()
		for _, packet := range append(test.nonsense, everywhere...) {
			before := r.Stats().Strays
			c := r.Handle(now.Add(time.Millisecond), []byte(packet))
			if done, err := r.Done(); done != was || err != nil || c.Data != nil || c.Last || r.Stats().Strays != before+1 ||
				len(r.AppendReply(now, nil)) > 0 || r.Deadline() != deadline {
				t.Errorf("Receiver %s: %.40q: done %v, %v, deadline %v, %+v", name, packet, done, err, r.Deadline(), r.Stats())
			}
		}
	}
}
