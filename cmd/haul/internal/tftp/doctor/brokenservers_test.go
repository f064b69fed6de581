package doctor

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// Each lie breaks exactly one rule. The doctor must name that rule and no other one.
var lies = []liar{
	{name: "none"},

	// OACKs.
	{name: "tsize 0 of an empty file", rule: ruleSizeZero, size: -1, lie: lie{
		reply: oack(func(f *flow, o []option) []option {
			if f.asked.has("tsize") {
				o = append(o, option{"tsize", "0"})
			}
			return o
		}),
	}},
	{name: "tsize as asked", rule: ruleSizeWrong, lie: lie{
		reply: oack(func(f *flow, o []option) []option {
			for i := range o {
				if o[i].name == "tsize" {
					o[i].value = f.asked.get("tsize")
				}
			}
			return o
		}),
	}},
	{name: "tsize off by one", rule: ruleSizeWrong, lie: lie{reply: value("tsize", plus(1))}},
	{name: "no tsize", rule: ruleNeedsSize, lie: lie{
		request: strip(func(name string) bool { return name == "tsize" }),
	}},
	{name: "no options", rule: ruleNeedsOACK, lie: lie{
		request: strip(func(string) bool { return true }),
	}},
	{name: "an option of its own", rule: ruleUnasked, lie: lie{
		reply: oack(func(_ *flow, o []option) []option { return append(o, option{"x", "1"}) }),
	}},
	{name: "OACK to a request without options", rule: ruleUnasked, lie: lie{
		reply: func(f *flow, b []byte) [][]byte {
			if f.asked.mode == "netascii" && !f.heard {
				return [][]byte{[]byte("\x00\x06blksize\x00512\x00")}
			}
			return [][]byte{b}
		},
	}},
	{name: "unknown option echoed", rule: ruleUnknown, lie: lie{
		reply: oack(func(f *flow, o []option) []option {
			if f.asked.has("x-haul-doctor") {
				o = append(o, option{"x-haul-doctor", "1"})
			}
			return o
		}),
	}},
	{name: "tsize enable echoed", rule: ruleMalformed, lie: lie{
		reply: oack(func(f *flow, o []option) []option {
			if f.asked.get("tsize") == "enable" {
				o = append(o, option{"tsize", "enable"})
			}
			return o
		}),
	}},
	{name: "tsize enable refused", rule: ruleMalformed, lie: lie{
		request: refuse(transfer.OptionsRefused, func(q *ask) bool { return q.get("tsize") == "enable" }),
	}},
	{name: "empty multicast refused", rule: ruleMalformed, lie: lie{
		request: refuse(transfer.IllegalOperation, func(q *ask) bool { return q.has("multicast") }),
	}},
	{name: "windowsize 0 confirmed", rule: ruleMalformed, lie: lie{
		request: func(f *flow, q *ask) bool {
			if q.get("windowsize") == "0" {
				f.toClient([]byte("\x00\x06windowsize\x000\x00"))
				return false
			}
			return true
		},
	}},
	{name: "option out of range kills", rule: ruleMalformed, lie: lie{
		request: swallow(func(q *ask) bool { return q.get("timeout") == "256" }),
	}},
	{name: "timeout refused", rule: ruleRefused, lie: lie{
		request: refuse(transfer.OptionsRefused, func(q *ask) bool { return q.get("timeout") == "5" }),
	}},
	{name: "OACK without its last NUL", rule: ruleBadOACK, lie: lie{
		reply: func(_ *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.OptionAck {
				b = b[:len(b)-1]
			}
			return [][]byte{b}
		},
	}},
	{name: "OACK in upper case", rule: ruleOACKCase, lie: lie{
		reply: oack(func(_ *flow, o []option) []option {
			for i := range o {
				o[i].name = strings.ToUpper(o[i].name)
			}
			return o
		}),
	}},
	{name: "another timeout", rule: ruleTimeout, lie: lie{reply: value("timeout", plus(1))}},
	{name: "larger blocks", rule: ruleBlockSize, lie: lie{reply: value("blksize", plus(1))}},
	{name: "larger windows", rule: ruleWindow, lie: lie{reply: value("windowsize", plus(1))}},
	{name: "empty windows", rule: ruleWindow, lie: lie{
		reply: value("windowsize", func(string) string { return "0" }),
	}},
	{name: "fragments", rule: ruleFragments, set: func(c *Config) { c.MTU = 1500 }},

	// Requests.
	{name: "option names in upper case unknown", rule: ruleOptionCase, lie: lie{
		request: strip(func(name string) bool { return name == strings.ToUpper(name) }),
	}},
	{name: "mode in upper case refused", rule: ruleModeCase, lie: lie{
		request: refuse(transfer.IllegalOperation, func(q *ask) bool { return q.mode == "OCTET" }),
	}},
	{name: "netascii refused", rule: ruleNetascii, lie: lie{
		request: refuse(transfer.NotDefined, func(q *ask) bool { return q.mode == "netascii" }),
	}},
	{name: "netascii not translated", rule: ruleNetascii, lie: lie{
		request: func(_ *flow, q *ask) bool {
			if q.mode == "netascii" {
				q.mode = "octet"
			}
			return true
		},
	}},
	{name: "leading slash refused", rule: ruleSlash, lie: lie{
		request: refuse(transfer.FileNotFound, func(q *ask) bool { return strings.HasPrefix(q.name, "/") }),
	}},
	{name: "a request for each", rule: ruleRepeat, lie: lie{
		request: func(f *flow, q *ask) bool {
			if f.asked.name != "" && slices.Equal(f.asked.options, q.options) && !f.heard {
				f.fake.open(f.client)
			}
			return true
		},
	}},
	{name: "deaf for new requests", rule: ruleReset, lie: lie{
		request: func(f *flow, _ *ask) bool { return !f.heard },
	}},
	{name: "second request of UEFI unanswered", rule: ruleProbe, lie: lie{
		request: swallow(func(q *ask) bool { return slices.Equal(q.options, []string{"blksize", "1468"}) }),
	}},
	{name: "missing file is ERROR 0", rule: ruleMissing, lie: lie{
		reply: func(_ *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.ErrorPacket {
				b = fault(transfer.NotDefined, "file not found")
			}
			return [][]byte{b}
		},
	}},
	{name: "ERROR without NUL", rule: ruleErrorNUL, lie: lie{
		reply: func(_ *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.ErrorPacket {
				b = b[:len(b)-1]
			}
			return [][]byte{b}
		},
	}},
	{name: "dots served", rule: ruleTraversal, lie: lie{
		request: func(_ *flow, q *ask) bool {
			if strings.Contains(q.name, "..") {
				q.name = "f"
			}
			return true
		},
	}},
	{name: "backslashes served", rule: ruleTraversal, lie: lie{
		request: func(_ *flow, q *ask) bool {
			if strings.HasPrefix(q.name, `..\`) {
				q.name = "f"
			}
			return true
		},
	}},
	{name: "malformed packets kill", rule: ruleBadPacket, lie: lie{
		request: func(f *flow, q *ask) bool {
			f.dead = q.mode == ""
			return !f.dead
		},
	}},
	{name: "one client unanswered", rule: ruleNoAnswer, lie: lie{
		request: swallow(func(q *ask) bool { return q.get("windowsize") == "4" }),
	}},

	// Data.
	{name: "longer blocks than agreed", rule: ruleBlockLong, lie: lie{
		reply: data(func(f *flow, _ int, b []byte) [][]byte {
			if len(b) == f.blksize+4 {
				b = append(bytes.Clone(b), 0)
			}
			return [][]byte{b}
		}),
	}},
	{name: "one client gets another byte", rule: ruleContent, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block == 3 && f.blksize == 1468 {
				b[20]++
			}
			return [][]byte{b}
		}),
	}},
	{name: "one client gets less", rule: ruleContent, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block == 3 && f.blksize == 1456 {
				b = b[:20]
			}
			return [][]byte{b}
		}),
	}},
	{name: "stops", rule: ruleStalls, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block > 4 && f.blksize == 1456 {
				return nil
			}
			return [][]byte{b}
		}),
	}},
	{name: "breaks off", rule: ruleBreaksOff, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block > 4 && f.blksize == 1456 {
				b = fault(transfer.NotDefined, "enough")
			}
			return [][]byte{b}
		}),
	}},
	{name: "begins with block 2", rule: ruleFirstBlock, lie: lie{reply: data(renumber(1))}},
	{name: "begins with block 0", rule: ruleFirstBlock, lie: lie{reply: data(renumber(-1))}},
	{name: "block 1 follows 65535", rule: ruleRollover, size: 600_000, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if f.wrapped = f.wrapped || block == 65535; f.wrapped && block < 32768 {
				binary.BigEndian.PutUint16(b[2:], uint16(block+1))
			}
			return [][]byte{b}
		}),
	}},
	{name: "ends at block 65535", rule: ruleRollover, size: 600_000, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if f.wrapped = f.wrapped || block == 65535; f.wrapped && block < 32768 {
				b = fault(transfer.NotDefined, "file too large")
			}
			return [][]byte{b}
		}),
	}},
	{name: "blocks before their ACK", rule: ruleWindowExceeded, lie: lie{
		reply: data(func(f *flow, _ int, b []byte) [][]byte {
			if f.asked.has("windowsize") {
				return [][]byte{b}
			}
			f.toServer(append([]byte{0, 4}, b[2:4]...))
			return [][]byte{b}
		}),
		client: func(f *flow, b []byte) [][]byte {
			if !f.asked.has("windowsize") && transfer.OpcodeOf(b) == transfer.Acknowledgement && binary.BigEndian.Uint16(b[2:]) > 0 {
				return nil
			}
			return [][]byte{b}
		},
	}},
	{name: "windows not filled", rule: ruleWindowShort, size: 13_000, lie: lie{
		request: func(f *flow, q *ask) bool {
			if n, _ := strconv.Atoi(q.get("windowsize")); n > 2 && n < 1000 {
				q.drop("windowsize")
				q.options = append(q.options, "windowsize", "2")
				f.last = strconv.AppendInt(nil, int64(n), 10)
			}
			return true
		},
		reply: oack(func(f *flow, o []option) []option {
			for i := range o {
				if o[i].name == "windowsize" && f.last != nil {
					o[i].value = string(f.last)
				}
			}
			return o
		}),
	}},
	{name: "deaf for NACKs", rule: ruleRewind, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if !f.asked.has("windowsize") || f.asked.get("blksize") == "8" {
				return [][]byte{b}
			}
			if block <= f.block && !f.done {
				f.done = time.Since(f.at) > 4*time.Second
				return nil
			}
			if f.block = max(f.block, block); !f.done {
				f.at = time.Now()
			}
			return [][]byte{b}
		}),
	}},
	{name: "answers repeated ACKs", rule: ruleApprentice, lie: lie{
		reply: data(func(f *flow, _ int, b []byte) [][]byte {
			f.last = bytes.Clone(b)
			return [][]byte{b}
		}),
		client: func(f *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.Acknowledgement && !f.asked.has("windowsize") {
				n := int(binary.BigEndian.Uint16(b[2:]))
				if n == f.block && n > 0 {
					f.toClient(f.last)
				}
				f.block = n
			}
			return [][]byte{b}
		},
	}},
	{name: "moves to another port", rule: rulePort, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block > 1 {
				f.elsewhere(b)
				return nil
			}
			return [][]byte{b}
		}),
	}},

	// Silence and strangers.
	{name: "OACK sent once", rule: ruleOACKLost, set: func(c *Config) { c.waits.lost = 2 * time.Second }, lie: lie{
		reply: func(f *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.OptionAck && f.seen[transfer.OptionAck] > 1 {
				return nil
			}
			return [][]byte{b}
		},
	}},
	{name: "junk sent again", rule: ruleResend, set: func(c *Config) { c.waits.silent = 8 * time.Second }, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block == 1 && f.seen[transfer.Data] > 1 && len(f.asked.options) == 0 && !f.heard {
				b = []byte("\x00\x03\x00\x01xyz")
			}
			return [][]byte{b}
		}),
	}},
	{name: "floods the silent", rule: ruleSilent, set: func(c *Config) { c.waits.silent = patience }, lie: lie{
		reply: data(func(f *flow, block int, b []byte) [][]byte {
			if block == 1 && len(f.asked.options) == 0 && f.seen[transfer.Data] > 1 && !f.heard {
				return slices.Repeat([][]byte{b}, 2*maxAnswers)
			}
			return [][]byte{b}
		}),
	}},
	{name: "ends at a stray packet", rule: ruleStray, lie: lie{
		stray: func(f *flow, _ []byte) bool {
			f.done = true
			return false
		},
		reply: func(f *flow, b []byte) [][]byte {
			if f.done {
				return nil
			}
			return [][]byte{b}
		},
	}},
	{name: "takes stray packets", rule: ruleStray, lie: lie{
		stray: func(f *flow, b []byte) bool {
			f.toServer(b)
			return false
		},
	}},
	{name: "passes over stray packets", rule: ruleStrayQuiet, lie: lie{
		stray: func(*flow, []byte) bool { return true },
	}},
	{name: "waits for the last ACK", rule: ruleLastAck, lie: lie{
		request: func(f *flow, _ *ask) bool {
			for _, other := range f.flows {
				if other.done {
					return false
				}
			}
			return true
		},
		reply: data(func(f *flow, _ int, b []byte) [][]byte {
			f.done = f.done || len(b) < f.blksize+4 && len(f.asked.options) == 0
			return [][]byte{b}
		}),
		client: func(f *flow, b []byte) [][]byte {
			f.done = false
			return [][]byte{b}
		},
	}},

	// Uploads.
	{name: "upload refused", rule: ruleUpload, set: withUpload, lie: lie{
		request: refuse(transfer.AccessViolation, func(q *ask) bool { return q.op == transfer.WriteRequest }),
	}},
	{name: "upload changed", rule: ruleUpload, set: withUpload, lie: lie{
		client: func(_ *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.Data {
				b[4]++
			}
			return [][]byte{b}
		},
	}},
	{name: "last block of an upload not acknowledged again", rule: ruleUploadRepeat, set: withUpload, lie: lie{
		reply: func(f *flow, b []byte) [][]byte {
			if transfer.OpcodeOf(b) == transfer.Acknowledgement {
				n := int(binary.BigEndian.Uint16(b[2:]))
				if n > 0 && n == f.block {
					return nil
				}
				f.block = n
			}
			return [][]byte{b}
		},
	}},
}

const defaultSize = 40_000 // bytes: several windows of every client

// plus returns a function that adds n to a number.
func plus(n int) func(string) string {
	return func(s string) string {
		m, _ := strconv.Atoi(s)
		return strconv.Itoa(m + n)
	}
}

// renumber returns a change that adds the given value to block numbers.
func renumber(by int) func(*flow, int, []byte) [][]byte {
	return func(_ *flow, block int, b []byte) [][]byte {
		binary.BigEndian.PutUint16(b[2:], uint16(block+by))
		return [][]byte{b}
	}
}

func withUpload(c *Config) { c.Upload = "up" }

// A liar is a server that breaks one rule.
type liar struct {
	name string
	rule string
	size int // size of the file; 0 means defaultSize, a negative size an empty file
	set  func(c *Config)
	lie  lie
}
