package serve

import (
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// dirs returns all directories and URLs that are served or uploaded to.
func (cfg *Config) dirs() []string {
	all := append([]string{}, cfg.Dirs...)
	for _, r := range cfg.Files.Roots {
		all = append(all, r.Dir)
	}
	return append(all, cfg.Files.UploadDir)
}

// checkSources checks the URLs among the directories, and the cache.
func (cfg *Config) checkSources(m *mistakes) {
	remote := false
	check := func(setting, text, dir string) {
		remote = remote || source.IsRemote(dir)
		if err := source.Check(dir); err != nil && source.IsRemote(dir) {
			m.add(setting, text+"%w", err)
		}
	}
	for _, dir := range cfg.Dirs {
		check("dirs", "", dir)
	}
	for _, r := range cfg.Files.Roots {
		check("root", "--root: ", r.Dir)
	}
	check("upload-dir", "--upload-dir: ", cfg.Files.UploadDir)
	if setting, err := cfg.Cache.Check(remote); err != nil {
		m.add(setting, "%w", err)
	}
}

// sourceSecrets returns what no client may have: keys and passwords, and the cache.
func (cfg *Config) sourceSecrets() (all []userroots.Secret) {
	for _, path := range cfg.sources.Needs().Secrets {
		all = append(all, userroots.Secret{Flag: "dirs", What: "a key or a password for a source", Path: path})
	}
	if cfg.Cache.Dir != "" {
		all = append(all, userroots.Secret{Flag: "--cache", What: "the cache", Path: cfg.Cache.Dir})
	}
	return all
}

// sandboxSources adds what it takes to log in again, to look up names, and to fill the cache.
func (cfg *Config) sandboxSources(c *privilege.Confinement) {
	n := cfg.sources.Needs()
	c.Read, c.Sockets, c.Connect = append(c.Read, n.Read...), append(c.Sockets, n.Sockets...), append(c.Connect, n.Ports...)
	if cfg.Cache.Dir != "" {
		c.Write = append(c.Write, cfg.Cache.Dir)
	}
}
