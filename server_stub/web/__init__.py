"""What the pages of both servers share: forms, rates, charts, style. Knows neither server."""
