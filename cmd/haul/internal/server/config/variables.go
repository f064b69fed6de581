package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// unknownVariables reports variables that were probably meant for a setting: their names are
// similar to a setting's variable, or begin with the name of a table. Without this check, a
// misspelled HAUL_ALLOW would open a server to everybody. Other variables are ignored, because they
// belong to other programs.
func (s *Settings) unknownVariables(environ []string) (wrong []mistake) {
	var known []string
	for _, one := range s.all {
		known = append(known, one.Variable())
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		key, ok := strings.CutPrefix(name, variablePrefix)
		if !ok || text == "" || slices.Contains(known, name) || ofService(name, text) {
			continue
		}
		near := s.nearestVariables(key, known)
		if table, _, _ := strings.Cut(strings.ToLower(key), "_"); len(near) > 0 || s.hasTable(table+".") {
			wrong = append(wrong, mistake{err: failure.Usage.Errorf("there is no variable %s%s", console.Visible(name), didYouMean("", nil, near...))})
		}
	}
	return wrong
}

// nearestVariables suggests known variables in place of an unknown one, whose name after the prefix
// is `key`. It returns the variable of the flag with that name or, without such a flag, the most
// similar variables.
func (s *Settings) nearestVariables(key string, known []string) []string {
	if one := s.find(failure.Flag(strings.ToLower(strings.ReplaceAll(key, "_", "-")))); one != nil {
		return []string{one.Variable()}
	}
	return console.Nearest(variablePrefix+key, known)
}

// serviceVariable matches variables that Kubernetes sets for each service of a namespace, and
// Docker for a link. For a service named haul, these include HAUL_SERVICE_HOST and
// HAUL_PORT_69_UDP_ADDR.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// ofService reports whether a variable describes a service of Kubernetes or Docker. One of these
// variables may be HAUL_PORT, which then contains a URL.
func ofService(name, text string) bool {
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(text, "://")
}
