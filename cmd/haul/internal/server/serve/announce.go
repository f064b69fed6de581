package serve

import (
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

// announceDryRun prints what [Run] would serve.
func announceDryRun(cfg *settings.Config, say func(format string, args ...any)) {
	dirs := strings.Join(cfg.Dirs, ", ")
	for _, p := range []struct {
		name  string
		addrs []string
	}{{"TFTP", cfg.TFTP.Listen}, {"SFTP", cfg.SFTP.Listen}, {"HTTP", cfg.HTTP.Listen}, {"HTTPS", cfg.HTTP.ListenTLS}} {
		if settings.AnyAddr(p.addrs) {
			say("would serve %s over %s on %s", dirs, p.name, strings.Join(p.addrs, ", "))
		}
	}
	announceAccess(cfg, say)
	if cfg.ServesSFTP() {
		who := "one user may log in, with a password for that run"
		if file, err := cfg.SFTP.UsersFile(); err == nil && file != "" {
			who = "the users in " + file + " may log in"
		}
		say("over SFTP %s", who)
	}
	if cfg.HTTP.Users != "" {
		say("over HTTP the users in %s may log in", cfg.HTTP.Users)
	}
	cfg.Notify.Announce(say)
	if cfg.User != "" {
		say("would become %s", cfg.User)
	}
	if cfg.Metrics != "" {
		say("would serve metrics on http://%s/metrics", cfg.Metrics)
	}
	switch {
	case cfg.Status.Listen == "":
	case cfg.Status.Users == "":
		say("would serve the status page on http://%s/", cfg.Status.Listen)
	default:
		say("would serve the status page on https://%s/, to the users in %s", cfg.Status.Listen, cfg.Status.Users)
	}
}

// announceAccess prints what clients without a login may do.
func announceAccess(cfg *settings.Config, say func(format string, args ...any)) {
	var open []string
	if cfg.ServesTFTP() {
		open = append(open, "TFTP")
	}
	if cfg.ServesHTTP() && cfg.HTTP.Users == "" {
		open = append(open, "HTTP")
	}
	if len(open) > 0 {
		say("over %s everybody may read%s", strings.Join(open, " and "), mayWrite[cfg.Files.Upload])
	}
}

// mayWrite maps each upload policy to the end of a sentence that begins with "everybody may read".
var mayWrite = map[site.Policy]string{
	site.UploadNone:      ", and nobody may write (--upload create lets all add files)",
	site.UploadCreate:    " and add files",
	site.UploadOverwrite: ", add files and replace them",
	site.UploadUnique:    ", and add files, whose names get a time stamp",
}
