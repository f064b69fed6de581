package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/screentest"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

// busy returns the state of a server with a number of transfers, some with strange names.
func busy(transfers int) (s state) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	s.info = status.Info{Version: "v1.4.0", Host: "rack-7", Time: at, Started: at.Add(-26*time.Hour - 5*time.Second), Protocols: []status.Totals{
		{Protocol: "tftp", Live: int64(transfers), Rate: 12e6, Bytes: 345e9, Ended: 12345, Failed: 7}, {Protocol: "https", Ended: 2},
	}}
	names := []string{"images/rack-7/vmlinuz-6.1.0-amd64", "kernel", "a/very/long/path/of/directories/that/does/not/fit/anywhere/initrd.img", "日本語の長い名前のファイル.txt", "bad\x1b[2J\nname", "rtl\u202egnp.exe"}
	s.transfers.Total = transfers
	for i := range transfers {
		size := int64(100e6)
		t := status.Transfer{Protocol: "tftp", Direction: "read", Peer: fmt.Sprint("192.0.2.", i, ":2070"), File: names[i%len(names)], Bytes: int64(i) * 7e6, Size: &size, Rate: int64(12e6 / (i + 1)), Window: 4, RoundTrip: 0.00123, Resent: int64(i)}
		switch i % len(names) {
		case 1:
			t.Protocol, t.Direction, t.User, t.Size, t.Window, t.RoundTrip, t.Peer = "https", "write", "alice\x07", nil, 0, 0, "[2001:db8::1234:5678]:51234"
		case 3:
			t.RoundTrip = 0
		}
		s.transfers.Transfers = append(s.transfers.Transfers, t)
	}
	return s
}

// troubled adds failures and stuck machines to a state.
func troubled(s state) state {
	s.info.Protocols[0].TurnedAway = map[meter.Reason]int64{meter.Busy: 12, meter.Rate: 3}
	for i := range 12 {
		s.failures.Failures = append(s.failures.Failures, status.Failure{Time: time.Date(2026, 11, 26, 11, 59, 59-i, 0, time.Local), Protocol: "tftp", Direction: "read", Peer: "192.0.2.7:2070", File: "new\nline", Result: "peer silent", Cause: "no answer for 25s"})
		s.machines.Machines = append(s.machines.Machines, status.Machine{MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Address: "192.0.2.7", Arch: "UEFI x64", Stage: "stuck", Before: "loader", Age: 125})
	}
	s.machines.Stages = map[string]int{"stuck": 12, "kernel": 3, "offered": 0}
	return s
}

// Lines fit terminals of several widths and heights.
func TestScreens(t *testing.T) {
	ending := troubled(busy(2))
	ending.info.Draining, ending.lost = true, "connection refused\x1b[31m"
	var all screentest.Screens
	all.Add(t, "120 columns", busy(7).lines, 119, 23)
	all.Add(t, "80 columns", troubled(busy(6)).lines, 79, 23)
	all.Add(t, "60 columns", busy(6).lines, 59, 23)
	all.Add(t, "40 columns", busy(6).lines, 39, 23)
	all.Add(t, "20 columns", troubled(busy(6)).lines, 19, 23)
	all.Add(t, "200 transfers, 12 rows", troubled(busy(200)).lines, 79, 11)
	all.Add(t, "4 rows", troubled(busy(6)).lines, 79, 4)
	all.Add(t, "a row", troubled(busy(6)).lines, 79, 1)
	all.Add(t, "nothing is under way", busy(0).lines, 79, 23)
	all.Add(t, "no answer", ending.lines, 79, 23)
	all.Add(t, "a column", busy(2).lines, 1, 23)
	all.Add(t, "no server", state{}.lines, 79, 23)
	all.Add(t, "printed once", troubled(busy(2)).lines, plainColumns, plainRows)
	all.Compare(t, "screens.txt")
}
