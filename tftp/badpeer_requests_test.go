package tftp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// TestMalformedRequests sends datagrams that are not requests to the port for requests.
func TestMalformedRequests(t *testing.T) {
	watchHeap(t)
	long := strings.Repeat("x", 1<<16)
	tests := []struct {
		name   string
		packet []byte
		answer []byte // beginning of the answer; nil means none
	}{
		{"empty datagram", nil, nil},
		{"one byte", []byte{0}, nil},
		{"opcode 0", []byte{0, 0}, nil},
		{"opcode 0 and a request", tftptest.Fields([]byte{0, 0}, "image", "octet"), nil},
		{"opcode 7", []byte{0, 7}, says(4)},
		{"opcode 65535", []byte{0xff, 0xff, 0, 1}, says(4)},
		{"opcode in the wrong order", tftptest.Fields([]byte{1, 0}, "image", "octet"), says(4)},
		{"opcode only", []byte{0, 1}, says(4)},
		{"no NUL", []byte("\x00\x01image octet"), says(4)},
		{"no NUL in 2048 bytes", []byte("\x00\x02" + long[:2046]), says(4)},
		{"nothing but NULs", make([]byte, 2048), nil},
		{"nothing but NULs behind the opcode", append([]byte{0, 1}, make([]byte, 2046)...), says(4)},
		{"no name", tftptest.Fields([]byte{0, 1}, "", "octet"), says(4)},
		{"no mode", tftptest.Fields([]byte{0, 1}, "image"), says(4)},
		{"empty mode", tftptest.Fields([]byte{0, 1}, "image", ""), says(4)},
		{"mode without its NUL", []byte("\x00\x01image\x00octet"), says(4)},
		{"mode mail", tftptest.Packet(1, "image", "mail", nil), says(4)},
		{"mode of 1000 bytes", tftptest.Packet(1, "image", long[:1000], nil), says(4)},
		{"mode with a space", tftptest.Packet(1, "image", " octet", nil), says(4)},
		{"mode with a Kelvin sign", tftptest.Packet(1, "image", "netasc\u0130\u0130", nil), says(4)},
		{"2048 bytes of name", tftptest.Packet(1, long[:2048-9], "octet", nil), says(2)},
		{"2049 bytes", tftptest.Packet(1, long[:2049-9], "octet", nil), says(4)},
		{"2049 bytes of options", padded(2049, tftptest.RRQ(goodFile)), says(4)},
		{"65507 bytes", tftptest.Packet(2, long[:65507-9], "octet", nil), says(4)},
		{"65507 bytes of NULs", append([]byte{0, 2}, make([]byte, 65505)...), says(4)},
		{"500 options that are known, too long", tftptest.RRQ(goodFile, repeated(500, "blksize", "600")...), says(4)},
		{"DATA", tftptest.Data(1, make([]byte, 512)), says(4)},
		{"DATA cut off", []byte{0, 3, 0}, says(4)},
		{"ACK", tftptest.ACK(1), says(4)},
		{"OACK", tftptest.OACK("blksize", "512"), says(4)},
		{"ERROR", tftptest.ErrorPacket(5, "no"), nil},
		{"ERROR without a code", []byte{0, 5}, nil},
		{"ERROR 65535 with 60 KiB of text", tftptest.Fields([]byte{0, 5, 0xff, 0xff}, long[:60<<10]), nil},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			p := tb.askAgain()
			p.Send(test.packet)
			if test.answer != nil {
				tb.wantAnswer(p, test.name, test.answer)
			}
			tb.wantServed(test.name)
			malformed := map[bool]int64{true: 1}[test.answer == nil || test.answer[3] == 4]
			tb.wantCount("requests are malformed", malformed, func(c Counters) int64 { return c.TurnedAway[Malformed] })
		})
	}
}

// Invalid options are ignored, and the others are agreed on.
func TestOddOptions(t *testing.T) {
	watchHeap(t)
	block := tftptest.Content(goodFile, 10*512+100)[:512]
	plain := tftptest.Data(1, block)
	const size, huge = "5220", "9223372036854775807"
	tests := []struct {
		name    string
		request []byte
		answer  []byte // the whole answer; for an ERROR its beginning
	}{
		{"unknown, 500 times", tftptest.RRQ(goodFile, repeated(500, "a", "b")...), plain},
		{"nameless, 500 times", tftptest.RRQ(goodFile, repeated(500, "", "")...), plain},
		{"blksize 190 times", tftptest.RRQ(goodFile, repeated(190, "blksize", "8")...), tftptest.OACK("blksize", "8")},
		{"tsize 240 times", tftptest.RRQ(goodFile, repeated(240, "tsize", "0")...), tftptest.OACK("tsize", size)},
		{"unknown before blksize", tftptest.RRQ(goodFile, append(repeated(480, "a", "b"), "blksize", "9")...), tftptest.OACK("blksize", "9")},
		{"blksize given twice", tftptest.RRQ(goodFile, "blksize", "16", "BLKSIZE", "24"), tftptest.OACK("blksize", "16")},
		{"names in any case", tftptest.RRQ(goodFile, "BLKSIZE", "600", "TSize", "0"), tftptest.OACK("blksize", "600", "tsize", size)},
		{"mode in any case", tftptest.Packet(1, goodFile, "OCTET", nil), plain},
		{"blksize, first out of range", tftptest.RRQ(goodFile, "blksize", "7", "blksize", "24"), tftptest.OACK("blksize", "24")},
		{"2048 bytes of one option", padded(2048, tftptest.RRQ(goodFile)), plain},
		{"value without its NUL", append(tftptest.RRQ(goodFile), "blksize\x00600"...), plain},
		{"name without a value", tftptest.RRQ(goodFile, "blksize"), plain},
		{"name in control characters", tftptest.RRQ(goodFile, "\x1b[2J\n", "\x07"), plain},

		{"blksize 8", tftptest.RRQ(goodFile, "blksize", "8"), tftptest.OACK("blksize", "8")},
		{"blksize 65464", tftptest.RRQ(goodFile, "blksize", "65464"), tftptest.OACK("blksize", "65464")},
		{"blksize 65465", tftptest.RRQ(goodFile, "blksize", "65465"), plain},
		{"blksize 7", tftptest.RRQ(goodFile, "blksize", "7"), plain},
		{"blksize 0", tftptest.RRQ(goodFile, "blksize", "0"), plain},
		{"blksize -1", tftptest.RRQ(goodFile, "blksize", "-1"), plain},
		{"blksize with a plus sign", tftptest.RRQ(goodFile, "blksize", "+512"), plain},
		{"blksize with a space before", tftptest.RRQ(goodFile, "blksize", " 512"), plain},
		{"blksize with a space behind", tftptest.RRQ(goodFile, "blksize", "512 "), plain},
		{"blksize with a line end", tftptest.RRQ(goodFile, "blksize", "512\n"), plain},
		{"blksize in hex", tftptest.RRQ(goodFile, "blksize", "0x200"), plain},
		{"blksize with an exponent", tftptest.RRQ(goodFile, "blksize", "1e3"), plain},
		{"blksize with a fraction", tftptest.RRQ(goodFile, "blksize", "512.0"), plain},
		{"blksize in Arabic digits", tftptest.RRQ(goodFile, "blksize", "٥١٢"), plain},
		{"blksize with leading zeros", tftptest.RRQ(goodFile, "blksize", "0000000000000000600"), tftptest.OACK("blksize", "600")},
		{"blksize with 100 leading zeros", tftptest.RRQ(goodFile, "blksize", strings.Repeat("0", 100)+"600"), plain},
		{"blksize 2^63-1", tftptest.RRQ(goodFile, "blksize", huge), plain},
		{"blksize 2^63", tftptest.RRQ(goodFile, "blksize", "9223372036854775808"), plain},
		{"blksize 2^64+512", tftptest.RRQ(goodFile, "blksize", "18446744073709552128"), plain},
		{"blksize 2^32+512", tftptest.RRQ(goodFile, "blksize", "4294967808"), plain},
		{"blksize of 1000 digits", tftptest.RRQ(goodFile, "blksize", strings.Repeat("9", 1000)), plain},

		{"windowsize 0", tftptest.RRQ(goodFile, "windowsize", "0"), plain},
		{"windowsize 65535", tftptest.RRQ(goodFile, "windowsize", "65535"), tftptest.OACK("windowsize", fmt.Sprint(defaultWindow))},
		{"windowsize 65536", tftptest.RRQ(goodFile, "windowsize", "65536"), plain},
		{"windowsize -1", tftptest.RRQ(goodFile, "windowsize", "-1"), plain},
		{"both at their most", tftptest.RRQ(goodFile, "blksize", "65464", "windowsize", "65535"),
			tftptest.OACK("blksize", "65464", "windowsize", fmt.Sprint(maxWindowBytes/65464))},
		{"both at their least", tftptest.RRQ(goodFile, "blksize", "8", "windowsize", "1"), tftptest.OACK("blksize", "8", "windowsize", "1")},

		{"tsize -1", tftptest.RRQ(goodFile, "tsize", "-1"), plain},
		{"tsize 2^63-1", tftptest.RRQ(goodFile, "tsize", huge), tftptest.OACK("tsize", size)},
		{"tsize 2^63", tftptest.RRQ(goodFile, "tsize", "9223372036854775808"), plain},
		{"timeout 0", tftptest.RRQ(goodFile, "timeout", "0"), plain},
		{"timeout 256", tftptest.RRQ(goodFile, "timeout", "256"), plain},
		{"utimeout 0", tftptest.RRQ(goodFile, "utimeout", "0"), plain},
		{"utimeout 1", tftptest.RRQ(goodFile, "utimeout", "1"), plain},
		{"rollover 2", tftptest.RRQ(goodFile, "rollover", "2"), plain},
		{"multicast", tftptest.RRQ(goodFile, "multicast", ""), plain},

		{"upload of 2^63-1 bytes", tftptest.WRQ("new", "tsize", huge), says(3)},
		{"upload of 2^63 bytes", tftptest.WRQ("new", "tsize", "9223372036854775808"), tftptest.ACK(0)},
		{"upload of -1 bytes", tftptest.WRQ("new", "tsize", "-1"), tftptest.ACK(0)},
		{"upload, both at their most", tftptest.WRQ("new", "blksize", "65464", "windowsize", "65535"),
			tftptest.OACK("blksize", "65464", "windowsize", fmt.Sprint(maxWindowBytes/65464))},
	}
	for _, test := range tests {
		runCase(t, test.name, func(s *Config) { s.MaxUpload = 1 << 40 }, func(tb *testbed) {
			if len(test.request) > transfer.MaxRequest {
				tb.Fatalf("a request of %d bytes tests nothing", len(test.request))
			}
			p := tb.askAgain()
			p.Send(test.request)
			tb.wantAnswer(p, test.name, test.answer)
			if refused := test.answer[1] == 5; !refused && !bytes.Equal(p.Last, test.answer) {
				tb.Errorf("got %.60q, want %.60q", p.Last, test.answer)
			}
			p.Send(tftptest.ErrorPacket(0, "enough"))
			tb.wantNoTransfersBut(2)
			tb.wantServed(test.name)
			tftptest.WantNoFile(tb, tb.store, "new")
		})
	}
}

// An upload that contradicts its own options, or breaks the rules, is published correctly or not
// at all.
func TestUploadsThatBreakRules(t *testing.T) {
	watchHeap(t)
	full, half := bytes.Repeat([]byte("x"), 512), bytes.Repeat([]byte("y"), 256)
	tests := []struct {
		name    string
		request []byte
		blocks  [][]byte // sent as DATA 1, 2 and so on
		last    []byte   // beginning of the answer to the last block
		holds   string   // content of the file, if it was acknowledged
	}{
		{"longer than announced", tftptest.WRQ("new", "tsize", "700"), [][]byte{full, full}, says(0), ""},
		{"shorter than announced", tftptest.WRQ("new", "tsize", "769"), [][]byte{full, half}, says(0), ""},
		{"as announced", tftptest.WRQ("new", "tsize", "768"), [][]byte{full, half}, tftptest.ACK(2), string(full) + string(half)},
		{"announced as nothing", tftptest.WRQ("new", "tsize", "0"), [][]byte{full, half}, tftptest.ACK(2), string(full) + string(half)},
		{"nothing", tftptest.WRQ("new"), [][]byte{nil}, tftptest.ACK(1), ""},
		{"larger than allowed", tftptest.WRQ("new"), [][]byte{full, full, full, full, full}, says(3), ""},
		{"block longer than agreed", tftptest.WRQ("new"), [][]byte{append(full, 'z')}, says(4), ""},
		{"block of 60000 bytes", tftptest.WRQ("new"), [][]byte{make([]byte, 60000)}, says(4), ""},

		{"text: CR and LF in two blocks", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), []byte("\n")}, tftptest.ACK(2), strings.Repeat("x", 511) + "\n"},
		{"text: CR and NUL in two blocks", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), {0}}, tftptest.ACK(2), strings.Repeat("x", 511) + "\r"},
		{"text: CR at the end", textUpload(), [][]byte{[]byte("x\r")}, tftptest.ACK(1), "x\r"},
		{"text: CR at the end of a full block", textUpload(), [][]byte{[]byte(strings.Repeat("x", 511) + "\r"), nil}, tftptest.ACK(2), strings.Repeat("x", 511) + "\r"},
		{"text: CRs", textUpload(), [][]byte{[]byte("\r\r\r\n\r\r\x00")}, tftptest.ACK(1), "\r\r\n\r\r"},
		{"text: bare LF, NUL and high bytes", textUpload(), [][]byte{[]byte("a\n\x00\xff\xfe\x1b[2J")}, tftptest.ACK(1), "a\n\x00\xff\xfe\x1b[2J"},
		{"text: nothing but CRs", textUpload(), [][]byte{bytes.Repeat([]byte("\r"), 512), nil}, tftptest.ACK(2), strings.Repeat("\r", 512)},
	}
	for _, test := range tests {
		// The limit leaves room for the good peer's upload.
		runCase(t, test.name, func(s *Config) { s.MaxUpload = 5220 }, func(tb *testbed) {
			p := tb.askAgain()
			blocks := test.blocks
			if test.name == "larger than allowed" {
				blocks = make([][]byte, 11)
				for i := range blocks {
					blocks[i] = full
				}
			}
			p.Send(test.request)
			p.News()
			for i, b := range blocks {
				p.Send(tftptest.Data(i+1, b))
				tb.good.step()
				if i < len(blocks)-1 {
					p.Want("its ACK", tftptest.ACK(i+1))
				}
			}
			tb.wantAnswer(p, test.name, test.last)
			if test.last[1] == 5 {
				tftptest.WantNoFile(tb, tb.store, "new")
			} else {
				tftptest.WantFile(tb, tb.store, "new", []byte(test.holds))
			}
		})
	}
}

func textUpload() []byte { return tftptest.Packet(2, "new", "netascii", nil) }

// Uploads that need more memory than is available are refused because the server is busy. Uploads
// that already have their memory continue.
func TestUploadsBeyondMemory(t *testing.T) {
	watchHeap(t)
	runCase(t, "windows larger than the memory", func(s *Config) { s.Memory = 256 << 10 }, func(tb *testbed) {
		request := func(i int) []byte { return tftptest.WRQ(fmt.Sprint("new", i), "blksize", "65464") }
		first := tb.askAgain()
		first.Send(request(0))
		first.Want("OACK", tftptest.OACK("blksize", "65464"))
		first.Send(tftptest.Data(1, make([]byte, 65464)))
		first.Want("ACK of who came first", tftptest.ACK(1))
		for i := range 50 {
			p := tb.another()
			p.Send(request(i + 1))
			p.Want("OACK", tftptest.OACK("blksize", "65464"))
			p.Send(tftptest.Data(1, make([]byte, 65464)))
			tb.wantAnswer(p, "an upload without memory", says(0))
			if i%10 == 0 {
				tb.good.step()
			}
		}
		if c := tb.server.Counters(); c.Held > tb.server.config.Memory {
			tb.Errorf("%d bytes held of %d", c.Held, tb.server.config.Memory)
		}
		first.Send(tftptest.Data(2, nil))
		first.Want("the end of who came first", tftptest.ACK(2))
		tftptest.WantFile(tb, tb.store, "new0", make([]byte, 65464))
		first.Send(tftptest.ErrorPacket(0, "enough"))
		tb.askAgain().Send(tftptest.WRQ("new1", "blksize", "65464"))
		tb.bad.Want("OACK", tftptest.OACK("blksize", "65464"))
		tb.bad.Send(tftptest.Data(1, nil))
		tb.bad.Want("once there is room", tftptest.ACK(1))
	})
}
