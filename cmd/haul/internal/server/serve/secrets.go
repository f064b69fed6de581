package serve

import "github.com/haul-project/haul/cmd/haul/internal/server/userroots"

// keepSecrets refuses to serve the secrets of any service, and others, by any service.
func keepSecrets(services []service, all []userroots.Secret) error {
	for _, s := range services {
		all = append(all, s.secrets()...)
	}
	for _, s := range services {
		if err := s.keepSecret(all); err != nil {
			return err
		}
	}
	return nil
}

// keepSecret refuses secrets in what is served.
func (s *publicFiles) keepSecret(all []userroots.Secret) error {
	for _, dirs := range [][]string{s.reads, s.writes} {
		if err := userroots.CheckApart(dirs, all); err != nil {
			return err
		}
	}
	return nil
}
