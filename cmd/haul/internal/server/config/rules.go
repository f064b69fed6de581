package config

import (
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// listens names the settings for listen addresses. They select the protocols that are served.
var listens = []failure.Flag{"tftp", "sftp", "http", "https"}

// chooseProtocols drops the default protocols if other protocols were selected.
func (s *Settings) chooseProtocols() {
	chosen := slices.ContainsFunc(listens, func(flag failure.Flag) bool { return s.find(flag).given() })
	s.config.TFTP.Fallback, s.config.HTTP.Fallback = "", ""
	if !s.find("tftp").given() {
		s.config.TFTP.Fallback = ":6969"
	}
	if !s.find("http").given() {
		s.config.HTTP.Fallback = ":8080"
	}
	for _, flag := range []failure.Flag{"tftp", "http"} {
		if one := s.find(flag); chosen && !one.given() {
			one.value.list.clear()
		}
	}
}

// A use is a rule that says under which condition some settings have an effect.
type use struct {
	keys   string // a key, or the common prefix of several keys, including its period
	served func(*Settings) bool
	what   error // a text for the error message: the protocols that use the settings
	add    error // a text for the error message: the flags that would turn on these protocols
}

// Several elements of `uses` share these texts.
var (
	notOpen = failure.Text("TFTP, and for HTTP without %s, neither of which is served", failure.Flag("http-auth"))
	orHTTP  = failure.Text("%s :69 or %s :80", failure.Flag("tftp"), failure.Flag("http"))
)

// uses holds the rules for settings that only some protocols use. The order matters: for each key,
// the first rule whose `keys` match it applies.
var uses = []use{
	{
		"files.upload", func(s *Settings) bool { return s.config.ServesAnybody() || s.config.ServesSFTP() },
		notOpen, orHTTP,
	},
	{
		"files.max_upload", func(s *Settings) bool { return s.config.ServesTFTP() || s.config.ServesHTTP() },
		failure.Text("TFTP and HTTP, neither of which is served"), orHTTP,
	},
	{
		"files.", func(s *Settings) bool { return s.config.ServesAnybody() },
		notOpen, orHTTP,
	},
	{"tftp.", func(s *Settings) bool { return s.config.ServesTFTP() }, failure.Text("TFTP, which is not served"), failure.Text("%s :69", failure.Flag("tftp"))},
	{"http.", func(s *Settings) bool { return s.config.ServesHTTP() }, failure.Text("HTTP, which is not served"), failure.Text("%s :80 or %s :443", failure.Flag("http"), failure.Flag("https"))},
	{"sftp.", func(s *Settings) bool { return s.config.ServesSFTP() }, failure.Text("SFTP, which is not served"), failure.Text("%s :2022", failure.Flag("sftp"))},
}

// checkUseless refuses settings that have no effect because their protocol is not served.
func (s *Settings) checkUseless() (wrong []error) {
	for _, one := range s.all {
		i := slices.IndexFunc(uses, func(u use) bool {
			return one.Key == u.keys || strings.HasSuffix(u.keys, ".") && strings.HasPrefix(one.Key, u.keys)
		})
		if i < 0 || !one.given() || slices.Contains(listens, failure.Flag(one.Flag)) || uses[i].served(s) {
			continue
		}
		flag, what := failure.Flag(one.Flag), uses[i].what
		if chooser := s.chooser(one.origin); chooser != "" {
			what = failure.Text("%w because of %s", what, chooser)
		}
		wrong = append(wrong, failure.Mistake(flag, "%s is for %w; add %w", flag, what, uses[i].add))
	}
	return wrong
}

// chooser returns a setting that selected the protocols, to explain why the setting with the origin
// `useless` has no effect. If both settings come from the same source, no explanation is needed,
// and chooser returns "".
func (s *Settings) chooser(useless Origin) failure.Flag {
	for _, flag := range listens {
		one := s.find(flag)
		if from := one.origin; one.given() && (from.File != useless.File || (from.Flag == "") != (useless.Flag == "")) {
			return flag
		}
	}
	return ""
}
