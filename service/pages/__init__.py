"""The pages for people: shells rendered here, which fetch what they show from the API."""
