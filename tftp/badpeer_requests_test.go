package tftp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
)

// Datagrams that are no request, at the port for requests.
func TestMalformedRequests(t *testing.T) {
	watchHeap(t)
	long := strings.Repeat("x", 1<<16)
	tests := []struct {
		name   string
		packet []byte
		answer []byte // how it begins; nil for silence
	}{
		{"empty datagram", nil, nil},
		{"one byte", []byte{0}, nil},
		{"opcode 0", []byte{0, 0}, nil},
		{"opcode 0 and a request", fields([]byte{0, 0}, "image", "octet"), nil},
		{"opcode 7", []byte{0, 7}, says(4)},
		{"opcode 65535", []byte{0xff, 0xff, 0, 1}, says(4)},
		{"opcode in the wrong order", fields([]byte{1, 0}, "image", "octet"), says(4)},
		{"opcode only", []byte{0, 1}, says(4)},
		{"no NUL", []byte("\x00\x01image octet"), says(4)},
		{"no NUL in 2048 bytes", []byte("\x00\x02" + long[:2046]), says(4)},
		{"nothing but NULs", make([]byte, 2048), nil},
		{"nothing but NULs behind the opcode", append([]byte{0, 1}, make([]byte, 2046)...), says(4)},
		{"no name", fields([]byte{0, 1}, "", "octet"), says(4)},
		{"no mode", fields([]byte{0, 1}, "image"), says(4)},
		{"empty mode", fields([]byte{0, 1}, "image", ""), says(4)},
		{"mode without its NUL", []byte("\x00\x01image\x00octet"), says(4)},
		{"mode mail", packet(1, "image", "mail", nil), says(4)},
		{"mode of 1000 bytes", packet(1, "image", long[:1000], nil), says(4)},
		{"mode with a space", packet(1, "image", " octet", nil), says(4)},
		{"mode with a Kelvin sign", packet(1, "image", "netasc\u0130\u0130", nil), says(4)},
		{"2048 bytes of name", packet(1, long[:2048-9], "octet", nil), says(2)},
		{"2049 bytes", packet(1, long[:2049-9], "octet", nil), says(4)},
		{"2049 bytes of options", padded(2049, rrq(goodFile)), says(4)},
		{"65507 bytes", packet(2, long[:65507-9], "octet", nil), says(4)},
		{"65507 bytes of NULs", append([]byte{0, 2}, make([]byte, 65505)...), says(4)},
		{"500 options that are known, too long", rrq(goodFile, repeated(500, "blksize", "600")...), says(4)},
		{"DATA", data(1, make([]byte, 512)), says(4)},
		{"DATA cut off", []byte{0, 3, 0}, says(4)},
		{"ACK", ack(1), says(4)},
		{"OACK", oack("blksize", "512"), says(4)},
		{"ERROR", errorPacket(5, "no"), nil},
		{"ERROR without a code", []byte{0, 5}, nil},
		{"ERROR 65535 with 60 KiB of text", fields([]byte{0, 5, 0xff, 0xff}, long[:60<<10]), nil},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			p := tb.askAgain()
			p.send(test.packet)
			if test.answer != nil {
				tb.wantAnswer(p, test.name, test.answer)
			}
			tb.wantServed(test.name)
			malformed := map[bool]int64{true: 1}[test.answer == nil || test.answer[3] == 4]
			tb.wantCount("requests are malformed", malformed, func(c Counters) int64 { return c.TurnedAway[Malformed] })
		})
	}
}

// Options that no client should offer. Those without sense are ignored, and the
// rest is agreed on.
func TestOddOptions(t *testing.T) {
	watchHeap(t)
	block := content(goodFile, 10*512+100)[:512]
	plain := data(1, block)
	const size, huge = "5220", "9223372036854775807"
	tests := []struct {
		name    string
		request []byte
		answer  []byte // all of it; of an ERROR how it begins
	}{
		{"unknown, 500 times", rrq(goodFile, repeated(500, "a", "b")...), plain},
		{"nameless, 500 times", rrq(goodFile, repeated(500, "", "")...), plain},
		{"blksize 190 times", rrq(goodFile, repeated(190, "blksize", "8")...), oack("blksize", "8")},
		{"tsize 240 times", rrq(goodFile, repeated(240, "tsize", "0")...), oack("tsize", size)},
		{"unknown before blksize", rrq(goodFile, append(repeated(480, "a", "b"), "blksize", "9")...), oack("blksize", "9")},
		{"blksize given twice", rrq(goodFile, "blksize", "16", "BLKSIZE", "24"), oack("blksize", "16")},
		{"names in any case", rrq(goodFile, "BLKSIZE", "600", "TSize", "0"), oack("blksize", "600", "tsize", size)},
		{"mode in any case", packet(1, goodFile, "OCTET", nil), plain},
		{"blksize, first out of range", rrq(goodFile, "blksize", "7", "blksize", "24"), oack("blksize", "24")},
		{"2048 bytes of one option", padded(2048, rrq(goodFile)), plain},
		{"value without its NUL", append(rrq(goodFile), "blksize\x00600"...), plain},
		{"name without a value", rrq(goodFile, "blksize"), plain},
		{"name in control characters", rrq(goodFile, "\x1b[2J\n", "\x07"), plain},

		{"blksize 8", rrq(goodFile, "blksize", "8"), oack("blksize", "8")},
		{"blksize 65464", rrq(goodFile, "blksize", "65464"), oack("blksize", "65464")},
		{"blksize 65465", rrq(goodFile, "blksize", "65465"), plain},
		{"blksize 7", rrq(goodFile, "blksize", "7"), plain},
		{"blksize 0", rrq(goodFile, "blksize", "0"), plain},
		{"blksize -1", rrq(goodFile, "blksize", "-1"), plain},
		{"blksize with a plus sign", rrq(goodFile, "blksize", "+512"), plain},
		{"blksize with a space before", rrq(goodFile, "blksize", " 512"), plain},
		{"blksize with a space behind", rrq(goodFile, "blksize", "512 "), plain},
		{"blksize with a line end", rrq(goodFile, "blksize", "512\n"), plain},
		{"blksize in hex", rrq(goodFile, "blksize", "0x200"), plain},
		{"blksize with an exponent", rrq(goodFile, "blksize", "1e3"), plain},
		{"blksize with a fraction", rrq(goodFile, "blksize", "512.0"), plain},
		{"blksize in Arabic digits", rrq(goodFile, "blksize", "٥١٢"), plain},
		{"blksize with leading zeros", rrq(goodFile, "blksize", "0000000000000000600"), oack("blksize", "600")},
		{"blksize with 100 leading zeros", rrq(goodFile, "blksize", strings.Repeat("0", 100)+"600"), plain},
		{"blksize 2^63-1", rrq(goodFile, "blksize", huge), plain},
		{"blksize 2^63", rrq(goodFile, "blksize", "9223372036854775808"), plain},
		{"blksize 2^64+512", rrq(goodFile, "blksize", "18446744073709552128"), plain},
		{"blksize 2^32+512", rrq(goodFile, "blksize", "4294967808"), plain},
		{"blksize of 1000 digits", rrq(goodFile, "blksize", strings.Repeat("9", 1000)), plain},

		{"windowsize 0", rrq(goodFile, "windowsize", "0"), plain},
		{"windowsize 65535", rrq(goodFile, "windowsize", "65535"), oack("windowsize", fmt.Sprint(DefaultWindow))},
		{"windowsize 65536", rrq(goodFile, "windowsize", "65536"), plain},
		{"windowsize -1", rrq(goodFile, "windowsize", "-1"), plain},
		{"both at their most", rrq(goodFile, "blksize", "65464", "windowsize", "65535"),
			oack("blksize", "65464", "windowsize", fmt.Sprint(maxWindowBytes/65464))},
		{"both at their least", rrq(goodFile, "blksize", "8", "windowsize", "1"), oack("blksize", "8", "windowsize", "1")},

		{"tsize -1", rrq(goodFile, "tsize", "-1"), plain},
		{"tsize 2^63-1", rrq(goodFile, "tsize", huge), oack("tsize", size)},
		{"tsize 2^63", rrq(goodFile, "tsize", "9223372036854775808"), plain},
		{"timeout 0", rrq(goodFile, "timeout", "0"), plain},
		{"timeout 256", rrq(goodFile, "timeout", "256"), plain},
		{"utimeout 0", rrq(goodFile, "utimeout", "0"), plain},
		{"utimeout 1", rrq(goodFile, "utimeout", "1"), plain},
		{"rollover 2", rrq(goodFile, "rollover", "2"), plain},
		{"multicast", rrq(goodFile, "multicast", ""), plain},

		{"upload of 2^63-1 bytes", wrq("new", "tsize", huge), says(3)},
		{"upload of 2^63 bytes", wrq("new", "tsize", "9223372036854775808"), ack(0)},
		{"upload of -1 bytes", wrq("new", "tsize", "-1"), ack(0)},
		{"upload, both at their most", wrq("new", "blksize", "65464", "windowsize", "65535"),
			oack("blksize", "65464", "windowsize", fmt.Sprint(maxWindowBytes/65464))},
	}
	for _, test := range tests {
		runCase(t, test.name, func(s *Server) { s.MaxUpload = 1 << 40 }, func(tb *testbed) {
			if len(test.request) > transfer.MaxRequest {
				tb.Fatalf("a request of %d bytes tests nothing", len(test.request))
			}
			p := tb.askAgain()
			p.send(test.request)
			tb.wantAnswer(p, test.name, test.answer)
			if refused := test.answer[1] == 5; !refused && !bytes.Equal(p.last, test.answer) {
				tb.Errorf("got %.60q, want %.60q", p.last, test.answer)
			}
			p.send(errorPacket(0, "enough"))
			tb.wantNoTransfersBut(2)
			tb.wantServed(test.name)
			wantNoFile(tb, tb.store, "new")
		})
	}
}

// An upload that breaks its own promises, or the rules, is published as it
// should be or not at all.
func TestUploadsThatBreakRules(t *testing.T) {
	watchHeap(t)
	full, half := bytes.Repeat([]byte("x"), 512), bytes.Repeat([]byte("y"), 256)
	tests := []struct {
		name    string
		request []byte
		blocks  [][]byte // as DATA 1 and so on
		last    []byte   // how the answer to the last one begins
		holds   string   // the file, if it was acknowledged
	}{
		{"longer than announced", wrq("new", "tsize", "700"), [][]byte{full, full}, says(0), ""},
		{"shorter than announced", wrq("new", "tsize", "769"), [][]byte{full, half}, says(0), ""},
		{"as announced", wrq("new", "tsize", "768"), [][]byte{full, half}, ack(2), string(full) + string(half)},
		{"announced as nothing", wrq("new", "tsize", "0"), [][]byte{full, half}, ack(2), string(full) + string(half)},
		{"nothing", wrq("new"), [][]byte{nil}, ack(1), ""},
		{"larger than allowed", wrq("new"), [][]byte{full, full, full, full, full}, says(3), ""},
		{"block longer than agreed", wrq("new"), [][]byte{append(full, 'z')}, says(4), ""},
		{"block of 60000 bytes", wrq("new"), [][]byte{make([]byte, 60000)}, says(4), ""},

		{"text: CR and LF in two blocks", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), []byte("\n")}, ack(2), strings.Repeat("x", 511) + "\n"},
		{"text: CR and NUL in two blocks", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), {0}}, ack(2), strings.Repeat("x", 511) + "\r"},
		{"text: CR at the end", textUpload(), [][]byte{[]byte("x\r")}, ack(1), "x\r"},
		{"text: CR at the end of a full block", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), nil}, ack(2), strings.Repeat("x", 511) + "\r"},
		{"text: CRs", textUpload(), [][]byte{[]byte("\r\r\r\n\r\r\x00")}, ack(1), "\r\r\n\r\r"},
		{"text: bare LF, NUL and high bytes", textUpload(), [][]byte{[]byte("a\n\x00\xff\xfe\x1b[2J")}, ack(1), "a\n\x00\xff\xfe\x1b[2J"},
		{"text: nothing but CRs", textUpload(), [][]byte{bytes.Repeat([]byte("\r"), 512), nil}, ack(2), strings.Repeat("\r", 512)},
	}
	for _, test := range tests {
		// The good peer's upload must fit, too.
		runCase(t, test.name, func(s *Server) { s.MaxUpload = 5220 }, func(tb *testbed) {
			p := tb.askAgain()
			blocks := test.blocks
			if test.name == "larger than allowed" {
				blocks = make([][]byte, 11)
				for i := range blocks {
					blocks[i] = full
				}
			}
			p.send(test.request)
			p.news()
			for i, b := range blocks {
				p.send(data(i+1, b))
				tb.good.step()
				if i < len(blocks)-1 {
					p.want("its ACK", ack(i+1))
				}
			}
			tb.wantAnswer(p, test.name, test.last)
			if test.last[1] == 5 {
				wantNoFile(tb, tb.store, "new")
			} else {
				wantFile(tb, tb.store, "new", []byte(test.holds))
			}
		})
	}
}

func textUpload() []byte { return packet(2, "new", "netascii", nil) }

// Text files that make the most of the translation arrive as they are.
func TestNetasciiEdges(t *testing.T) {
	watchHeap(t)
	for name, text := range map[string]string{
		"line ends":       strings.Repeat("\n", 3000),
		"CRs":             strings.Repeat("\r", 3000),
		"CR at each edge": strings.Repeat(strings.Repeat("x", 511)+"\r", 5),
		"LF at each edge": strings.Repeat(strings.Repeat("x", 511)+"\n", 5),
		"NULs":            strings.Repeat("\x00", 3000),
		"CR, NUL":         strings.Repeat("\r\x00", 1500),
		"binary":          string(content("binary", 3000)),
		"exactly a block": strings.Repeat("\n", 256),
	} {
		runCase(t, name, nil, func(tb *testbed) {
			writeFile(tb, tb.dir, "text", text)
			got, fault := tb.fetch(tb.askAgain(), "text", "netascii", func() { tb.good.step() })
			if want := netascii(text); fault != nil || string(got) != want {
				tb.Errorf("%d bytes of %d, %q", len(got), len(want), fault)
			}
			tb.wantNoTransfersBut(2)
		})
	}
}

// netascii translates a text the simple way.
func netascii(text string) string {
	return strings.NewReplacer("\n", "\r\n", "\r", "\r\x00").Replace(text)
}

// Uploads that want more memory than there is are refused as the server is
// busy, and those that have theirs continue.
func TestUploadsBeyondMemory(t *testing.T) {
	watchHeap(t)
	runCase(t, "windows larger than the memory", func(s *Server) { s.Memory = 256 << 10 }, func(tb *testbed) {
		request := func(i int) []byte { return wrq(fmt.Sprint("new", i), "blksize", "65464") }
		first := tb.askAgain()
		first.send(request(0))
		first.want("OACK", oack("blksize", "65464"))
		first.send(data(1, make([]byte, 65464)))
		first.want("ACK of who came first", ack(1))
		for i := range 50 {
			p := tb.another()
			p.send(request(i + 1))
			p.want("OACK", oack("blksize", "65464"))
			p.send(data(1, make([]byte, 65464)))
			tb.wantAnswer(p, "an upload without memory", says(0))
			if i%10 == 0 {
				tb.good.step()
			}
		}
		if c := tb.server.Counters(); c.Held > tb.server.Memory {
			tb.Errorf("%d bytes held of %d", c.Held, tb.server.Memory)
		}
		first.send(data(2, nil))
		first.want("the end of who came first", ack(2))
		wantFile(tb, tb.store, "new0", make([]byte, 65464))
		first.send(errorPacket(0, "enough"))
		tb.askAgain().send(wrq("new1", "blksize", "65464"))
		tb.bad.want("OACK", oack("blksize", "65464"))
		tb.bad.send(data(1, nil))
		tb.bad.want("once there is room", ack(1))
	})
}
