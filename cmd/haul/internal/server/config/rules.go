package config

import (
	"fmt"
	"slices"
	"strings"
)

// listens are the settings that choose the protocols.
var listens = strings.Fields("tftp sftp http https")

// chooseProtocols drops the protocols that are served by default if others were chosen.
func (s *Settings) chooseProtocols() {
	chosen := slices.ContainsFunc(listens, func(flag string) bool { return s.find(flag).given() })
	s.config.TFTP.Fallback, s.config.HTTP.Fallback = "", ""
	if !s.find("tftp").given() {
		s.config.TFTP.Fallback = ":6969"
	}
	if !s.find("http").given() {
		s.config.HTTP.Fallback = ":8080"
	}
	for _, flag := range []string{"tftp", "http"} {
		if one := s.find(flag); chosen && !one.given() {
			one.value.list.clear()
		}
	}
}

// A use says when some settings have an effect.
type use struct {
	keys   string // a key, or the beginning of several with its period
	served func(*Settings) bool
	what   string // that they are for, and is not served
	add    string // that serves it
}

// uses are in order: the first that fits a key counts.
var uses = []use{
	{
		"files.upload", func(s *Settings) bool { return s.config.ServesAnybody() || s.config.ServesSFTP() },
		"TFTP, and for HTTP without --http-auth, neither of which is served", "--tftp :69 or --http :80",
	},
	{
		"files.max_upload", func(s *Settings) bool { return s.config.ServesTFTP() || s.config.ServesHTTP() },
		"TFTP and HTTP, neither of which is served", "--tftp :69 or --http :80",
	},
	{
		"files.", func(s *Settings) bool { return s.config.ServesAnybody() },
		"TFTP, and for HTTP without --http-auth, neither of which is served", "--tftp :69 or --http :80",
	},
	{"tftp.", func(s *Settings) bool { return s.config.ServesTFTP() }, "TFTP, which is not served", "--tftp :69"},
	{"http.", func(s *Settings) bool { return s.config.ServesHTTP() }, "HTTP, which is not served", "--http :80 or --https :443"},
	{"sftp.", func(s *Settings) bool { return s.config.ServesSFTP() }, "SFTP, which is not served", "--sftp :2022"},
}

// checkUseless refuses settings that have no effect because their protocol is not served.
func (s *Settings) checkUseless() (wrong []error) {
	for _, one := range s.all {
		i := slices.IndexFunc(uses, func(u use) bool {
			return one.Key == u.keys || strings.HasSuffix(u.keys, ".") && strings.HasPrefix(one.Key, u.keys)
		})
		if i < 0 || !one.given() || slices.Contains(listens, one.Flag) || uses[i].served(s) {
			continue
		}
		wrong = append(wrong, one.mistake(fmt.Errorf("--%s is for %s%s; add %s", one.Flag, uses[i].what, s.chooser(one.origin), uses[i].add)))
	}
	return wrong
}

// chooser names the setting that has chosen the protocols, if it comes from another place
// than one that has no effect because of that.
func (s *Settings) chooser(useless Origin) string {
	for _, flag := range listens {
		one := s.find(flag)
		if from := one.origin; one.given() && (from.File != useless.File || (from.Flag == "") != (useless.Flag == "")) {
			return " because of --" + flag
		}
	}
	return ""
}
