package serve

import (
	"io"
	"log/slog"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

// DryRun does as [Run] does until it opens sockets, and writes what Run would serve. It
// creates no files: no host keys, and no recording of packets. With Boot.Advise it writes
// that alone.
func DryRun(cfg Config, out io.Writer) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	cfg.Trace, cfg.Cache = trace.Setup{}, source.Caching{}
	_, all, err := cfg.open(nil, nil, slog.New(slog.DiscardHandler), io.Discard)
	defer func() { closeServices(all); cfg.sources.Close() }()
	if err != nil {
		return err
	}
	boot, ok := all[len(all)-1].(*bootService)
	if cfg.Boot.Advise != "" {
		return boot.Advise(boot.clients(), out)
	}
	if cfg.announceDryRun(out); ok {
		boot.out = out
		boot.announce()
	}
	return nil
}

// announceDryRun prints what [Run] would serve.
func (cfg *Config) announceDryRun(out io.Writer) {
	dirs := strings.Join(cfg.Dirs, ", ")
	for _, p := range []struct {
		name  string
		addrs []string
	}{{"TFTP", cfg.TFTP.Listen}, {"SFTP", cfg.SFTP.Listen}, {"HTTP", cfg.HTTP.Listen}, {"HTTPS", cfg.HTTP.ListenTLS}} {
		if anyAddr(p.addrs) {
			cfg.say(out, "would serve %s over %s on %s", dirs, p.name, strings.Join(p.addrs, ", "))
		}
	}
	cfg.announceAccess(out)
	if cfg.ServesSFTP() {
		who := "one user may log in, with a password for that run"
		if file, err := cfg.SFTP.usersFile(); err == nil && file != "" {
			who = "the users in " + file + " may log in"
		}
		cfg.say(out, "over SFTP %s", who)
	}
	if cfg.HTTP.Users != "" {
		cfg.say(out, "over HTTP the users in %s may log in", cfg.HTTP.Users)
	}
	cfg.Notify.Announce(func(format string, args ...any) { cfg.say(out, format, args...) })
	if cfg.User != "" {
		cfg.say(out, "would become %s", cfg.User)
	}
	if cfg.Metrics != "" {
		cfg.say(out, "would serve metrics on http://%s/metrics", cfg.Metrics)
	}
	switch {
	case cfg.Status.Listen == "":
	case cfg.Status.Users == "":
		cfg.say(out, "would serve the status page on http://%s/", cfg.Status.Listen)
	default:
		cfg.say(out, "would serve the status page on https://%s/, to the users in %s", cfg.Status.Listen, cfg.Status.Users)
	}
}

// announceAccess prints what clients without a login may do.
func (cfg *Config) announceAccess(out io.Writer) {
	var open []string
	if cfg.ServesTFTP() {
		open = append(open, "TFTP")
	}
	if cfg.ServesHTTP() && cfg.HTTP.Users == "" {
		open = append(open, "HTTP")
	}
	if len(open) > 0 {
		cfg.say(out, "over %s everybody may read%s", strings.Join(open, " and "), mayWrite[cfg.Files.Upload])
	}
}

// mayWrite continues the sentence that everybody may read.
var mayWrite = map[site.Policy]string{
	site.UploadNone:      ", and nobody may write (--upload create lets all add files)",
	site.UploadCreate:    " and add files",
	site.UploadOverwrite: ", add files and replace them",
	site.UploadUnique:    ", and add files, whose names get a time stamp",
}
