package settings

import (
	"errors"
	"slices"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

// The default configuration is valid once it names a directory. A mistake names its setting.
func TestCheck(t *testing.T) {
	good := func() Config {
		cfg := Default()
		cfg.Dirs = []string{"."}
		cfg.HTTP.Listen = nil
		return cfg
	}
	cfg := good()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		setting failure.Flag
		spoil   func(*Config)
	}{
		{"dirs", func(c *Config) { c.Dirs = nil }},
		{"", func(c *Config) { c.TFTP.Listen = nil }},
		{"tftp", func(c *Config) { c.TFTP.Listen = []string{"69"} }},
		{"ports", func(c *Config) { c.TFTP.FirstPort, c.TFTP.LastPort = 9, 8 }},
		{"ports", func(c *Config) { c.TFTP.LastPort = 8 }},
		{"single-port", func(c *Config) { c.TFTP.SinglePort, c.TFTP.FirstPort, c.TFTP.LastPort = true, 8, 8 }},
		{"mtu", func(c *Config) { c.TFTP.MTU = MinMTU - 1 }},
		{"mtu", func(c *Config) { c.TFTP.MTU = MaxMTU + 1 }},
		{"loops", func(c *Config) { c.TFTP.Loops = MaxLoops + 1 }},
		{"grace", func(c *Config) { c.Grace = 0 }},
		{"metrics", func(c *Config) { c.Metrics = "9100" }},
		{"metrics", func(c *Config) { c.Metrics = "127.0.0.1:70000" }},
		{"log-format", func(c *Config) { c.LogFormat = "xml" }},
		{"max-upload", func(c *Config) { c.Files.MaxUpload = 0 }},
		{"shared", func(c *Config) { c.Files.Shared = true }},
		{"upload-dir", func(c *Config) { c.Files.UploadDir = "/srv" }},
		{"no-fsync", func(c *Config) { c.NoFsync = true }},
		{"upload-parents", func(c *Config) { c.TFTP.UploadParents = true }},
		{"upload", func(c *Config) {
			c.TFTP.Listen, c.HTTP.Listen, c.Files.Upload = nil, []string{":80"}, site.UploadUnique
		}},
		{"https", func(c *Config) { c.HTTP.ListenTLS = []string{"443"} }},
		{"http-auth", func(c *Config) { c.HTTP.Listen, c.HTTP.Users = []string{":80"}, "/etc/haul/users" }},
		{"sftp-conns", func(c *Config) { c.SFTP.MaxConns = 0 }},
		{"rate", func(c *Config) { c.TFTP.Rate = -2 }},
		{"rate", func(c *Config) { c.TFTP.Rate = mostRequests + 1 }},
		{"tftp-bandwidth", func(c *Config) { c.TFTP.Bandwidth = leastRate - 1 }},
		{"tftp-bandwidth-per-client", func(c *Config) { c.TFTP.BandwidthPerClient = -1 }},
		{"sftp-rate", func(c *Config) { c.SFTP.Rate = -1 }},
		{"sftp-rate", func(c *Config) { c.SFTP.Rate = leastRate - 1 }},
		{"http-rate", func(c *Config) { c.HTTP.Rate = mostRate + 1 }},
		{"http-rate-per-source", func(c *Config) { c.HTTP.RatePerSource = -1 }},
		{"http-rate-per-source", func(c *Config) {
			c.HTTP.Listen, c.HTTP.Users, c.HTTP.PlainPasswords, c.HTTP.RatePerSource = []string{":80"}, "/etc/haul/users", true, mostRate
		}},
		{"host-keys", func(c *Config) { c.SFTP.HostKeys, c.Restartable = NoHostKeys, true }},
		{"tcp-congestion", func(c *Config) { c.Congestion = "cubic" }}, // with only TFTP
		{"tcp-congestion", func(c *Config) { c.SFTP.Listen, c.Congestion = []string{":22"}, "a b" }},
		{"tcp-congestion", func(c *Config) { c.SFTP.Listen, c.Congestion = []string{":22"}, "longerthananyone" }},
		{"trace-hex", func(c *Config) { c.Trace.HexBytes = trace.MaxDatagram + 1 }},
		{"trace-hex", func(c *Config) { c.Trace.HexBytes = 16 }}, // without text
	} {
		cfg := good()
		test.spoil(&cfg)
		err := cfg.Check()
		if all := failure.Joined(err); !slices.ContainsFunc(all, func(err error) bool {
			mistake, ok := errors.AsType[*failure.Error](err)
			return ok && mistake.Kind == failure.Usage && mistake.Setting == test.setting
		}) {
			t.Errorf("want a mistake in %q, got %v", test.setting, err)
		}
	}
}

// If HTTP requires a login, boot clients get no files by HTTP.
func TestServesBootHTTP(t *testing.T) {
	cfg := Default()
	if cfg.HTTP.Listen = []string{":80"}; !cfg.ServesBootHTTP() {
		t.Error("HTTP is not used")
	}
	if cfg.HTTP.Users = "users"; cfg.ServesBootHTTP() {
		t.Error("HTTP is used, which asks for passwords")
	}
}
