package pipeline

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	for _, test := range []struct {
		ranges []Range
		hex    string
	}{
		{nil, "01"},
		{[]Range{{0, 1}}, "010001"},
		{[]Range{{1, 2}, {3, 300}}, "01010101a902"},
		{[]Range{{0, math.MaxInt64}}, "0100ffffffffffffffff7f"},
	} {
		got := AppendRanges(nil, test.ranges)
		if hex.EncodeToString(got) != test.hex {
			t.Errorf("%v is %x, want %s", test.ranges, got, test.hex)
		}
		if back, err := ParseRanges(got); err != nil || !slices.Equal(back, test.ranges) {
			t.Errorf("%x is %v, %v", got, back, err)
		}
	}
}

func TestParseRangesRefuses(t *testing.T) {
	many := bytes.Repeat([]byte{1, 1}, MaxRanges+1)
	for _, test := range []struct {
		name, hex, want string
	}{
		{"nothing", "", "version"},
		{"another version", "02", "version"},
		{"a range cut short", "0105", "length: cut short"},
		{"a number cut short", "0180", "start: cut short"},
		{"an empty range", "010500", "empty"},
		{"ranges that touch", "0100010001", "touches"},
		{"a long form", "01800001", "shortest form"},
		{"eleven bytes", "01ffffffffffffffffffff01", "too large"},
		{"65 bits", "01ffffffffffffffffff0201", "too large"},
		{"a negative offset", "01ffffffffffffffffff0101", "too large"},
		{"an end beyond all", "0101ffffffffffffffff7f", "highest offset"},
		{"a start beyond all", "0100ffffffffffffffff7f0101", "highest offset"},
		{"too many", "01" + hex.EncodeToString(many), "more than 4096"},
	} {
		b, err := hex.DecodeString(test.hex)
		if err != nil {
			t.Fatal(err)
		}
		if rs, err := ParseRanges(b); rs != nil || err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "resume state: ") {
			t.Errorf("%s: %v, %v", test.name, rs, err)
		}
	}
	if rs, err := ParseRanges(append([]byte{rangesVersion}, many[2:]...)); err != nil || len(rs) != MaxRanges {
		t.Errorf("%d ranges, %v", len(rs), err)
	}
}
