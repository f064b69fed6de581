package tftpd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/tftp"
)

// The descriptors suffice for the open files, and a limit below the default is logged.
func TestFitDescriptors(t *testing.T) {
	for _, test := range []struct {
		asked, limit int
		upload       site.Policy
		want         int
		logged       bool
	}{
		{16384, 1 << 30, site.UploadNone, 0, false},
		{16384, 20000, site.UploadNone, 0, false},
		{16384, 20000, site.UploadCreate, 9936, false}, // the default, which is usually enough
		{20000, 20000, site.UploadCreate, 9936, true},
		{16384, 1024, site.UploadNone, 896, true},
		{16384, 200, site.UploadNone, 100, true},
		{16384, 1, site.UploadCreate, 1, true},
		{10, 1024, site.UploadCreate, 0, false},
	} {
		var out bytes.Buffer
		srv := &tftp.Config{MaxTransfers: test.asked, Log: slog.New(slog.NewTextHandler(&out, nil))}
		fitDescriptors(srv, test.upload, test.limit)
		if srv.MaxTransfers != test.asked || srv.MaxFiles != test.want || test.logged != strings.Contains(out.String(), "ulimit") {
			t.Errorf("%+v: %d transfers, %d files, %s", test, srv.MaxTransfers, srv.MaxFiles, out.String())
		}
	}
}
