package serve

import (
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// services returns the names of the services that the settings turn on.
func services(cfg *settings.Config) (names []string) {
	for _, s := range []struct {
		name   string
		served bool
	}{{handover.TFTP, cfg.ServesTFTP()}, {handover.SFTP, cfg.ServesSFTP()}, {handover.HTTP, settings.AnyAddr(cfg.HTTP.Listen)}, {handover.HTTPS, settings.AnyAddr(cfg.HTTP.ListenTLS)}, {handover.Boot, cfg.Boot.Answer}} {
		if s.served {
			names = append(names, s.name)
		}
	}
	return names
}

// unixServices returns the names of the services whose proxies may connect by unix sockets.
func unixServices(cfg *settings.Config) (names []string) {
	if cfg.SFTP.UnixProxies {
		names = append(names, handover.SFTP)
	}
	if cfg.HTTP.UnixProxies {
		names = append(names, handover.HTTP, handover.HTTPS)
	}
	return names
}
