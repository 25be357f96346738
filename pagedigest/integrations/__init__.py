"""Adapters: page digests in browsers, agents and protocols that exist already. Each imports its library only when used."""
