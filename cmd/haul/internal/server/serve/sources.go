package serve

import (
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// sourceSecrets returns the files for upstreams that no client may access: keys and passwords.
func sourceSecrets(sources *source.Set) (all []userroots.Secret) {
	for _, path := range sources.Needs().Secrets {
		all = append(all, userroots.Secret{Flag: failure.Dirs, What: "a key or a password for a source", Path: path})
	}
	return all
}

// sandboxSources adds the resources that upstreams need while the server runs: to log in again, to
// look up names, and to fill the cache.
func sandboxSources(c *privilege.Confinement, cfg *settings.Config, sources *source.Set) {
	n := sources.Needs()
	c.Read, c.Sockets, c.Connect = append(c.Read, n.Read...), append(c.Sockets, n.Sockets...), append(c.Connect, n.Ports...)
	if cfg.Cache.Dir != "" {
		c.Write = append(c.Write, cfg.Cache.Dir)
	}
}
